import { type Label, labelNames, type ToolLabels } from './labels.ts'
import { packs } from './packs.ts'
import { isFields, join, type PolicyFault, policyLimits, Reader } from './reader.ts'

/** Whether an entry of labels names a file. The service and the command line put its map in its place before they read. */
export const isLabelFile = (entry: unknown): entry is string =>
  typeof entry === 'string' && /\.(?:ya?ml|json)$/i.test(entry)

/** Reads labels: a map of tools, the name of a pack, or a list of both, of which later ones win. */
export function readLabels(value: unknown): { labels: ReadonlyMap<string, ToolLabels>; faults: PolicyFault[] } {
  const reader = new Reader()
  return { labels: readLabelsWith(reader, value, ''), faults: reader.faults }
}

/** Reads labels of a policy. Names of tools are in lower case. */
export function readLabelsWith(reader: Reader, value: unknown, path: string): ReadonlyMap<string, ToolLabels> {
  const labels = new Map<string, ToolLabels>()
  for (const part of value === undefined ? [] : Array.isArray(value) ? value : [value]) {
    if (isLabelFile(part)) {
      reader.fault(
        path,
        'names a file, which the API cannot read: use `wardline policy add` or put the labels into the policy.',
      )
      continue
    }
    const pack = typeof part === 'string' && Object.hasOwn(packs, part) ? packs[part] : undefined
    if (typeof part === 'string' && !pack) {
      reader.fault(path, `has no pack ${part.slice(0, 100)}; the packs are ${Object.keys(packs).join(', ')}.`)
      continue
    }
    if (!isFields(pack ?? part)) {
      reader.fault(path, 'must be a map of tools, the name of a pack, or a list of these.')
      continue
    }
    for (const [tool, one] of Object.entries(pack ?? part).slice(0, policyLimits.labels + 1)) {
      if (tool.length > policyLimits.textLength) {
        reader.fault(path, `must name tools in at most ${policyLimits.textLength} characters.`)
      }
      labels.set(tool.toLowerCase(), readToolLabels(reader, one, join(path, tool)))
    }
  }
  if (labels.size > policyLimits.labels) reader.fault(path, `must name at most ${policyLimits.labels} tools.`)
  return labels
}

function readToolLabels(reader: Reader, value: unknown, path: string): ToolLabels {
  const fields = reader.fields(value, path, ['is', 'destination', 'when'])
  const named = (list: unknown, place: string): Label[] => {
    const entries = Array.isArray(list) ? list : [list]
    if (entries.length > labelNames.length) reader.fault(place, `must have at most ${labelNames.length} labels.`)
    return entries.slice(0, labelNames.length).map((label, at) => reader.choice(label, `${place}[${at}]`, labelNames))
  }
  const when = fields.when === undefined ? [] : isFields(fields.when) ? Object.entries(fields.when) : undefined
  if (when === undefined || when.length > policyLimits.conditions) {
    reader.fault(join(path, 'when'), `must be a map of at most ${policyLimits.conditions} arguments.`)
  }
  const destination =
    Array.isArray(fields.destination) && fields.destination.length === 0 ? undefined : fields.destination
  return {
    is: fields.is === undefined ? [] : named(fields.is, join(path, 'is')),
    destination: reader.texts(destination, join(path, 'destination'), policyLimits.conditions),
    when: Object.fromEntries((when ?? []).map(([name, list]) => [name, named(list, join(path, `when.${name}`))])),
  }
}
