import { type ConfigItem, type ConfigKind, configLimits, type Severity, toolsNotCompared } from '@wardline/contract'

export interface ConfigChange {
  kind: ConfigKind
  name: string
  change: 'added' | 'removed' | 'changed'
  /** Wardline's hook before tool calls was removed or weakened. */
  unhooked?: true
  /** Versions of a server or plugin, where they differ. */
  from?: string
  to?: string
}

const keyOf = ({ kind, name }: ConfigItem) => `${kind} ${name}`

/** Returns the items in one order, however they were reported. */
export const inOrder = (items: readonly ConfigItem[]): ConfigItem[] =>
  items.toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : keyOf(one) > keyOf(other) ? 1 : 0))

/** Returns the name of an item that is listed twice; undefined if there is none. */
export function repeatedItem(items: readonly ConfigItem[]): string | undefined {
  const known = new Set<string>()
  return items.find((item) => known.size === known.add(keyOf(item)).size)?.name
}

const shownFields = ['command', 'address', 'version', 'ours'] as const

function changeOf(before: ConfigItem | undefined, after: ConfigItem | undefined, isSameKey: boolean): ConfigChange[] {
  const { kind, name } = (after ?? before)!
  const unhooked = before?.ours === true && after?.ours !== true ? ({ unhooked: true } as const) : {}
  if (!after) return [{ kind, name, change: 'removed', ...unhooked }]
  if (!before) return [{ kind, name, change: 'added' }]
  const isSame = (field: keyof ConfigItem) => (before[field] ?? false) === (after[field] ?? false)
  if (shownFields.every(isSame) && (!isSameKey || isSame('sha256'))) return []
  const { version: from } = before
  const { version: to } = after
  return [
    {
      kind,
      name,
      change: 'changed',
      ...unhooked,
      ...(from !== to ? { ...(from && { from }), ...(to && { to }) } : {}),
    },
  ]
}

/**
 * Compares two reports of one configuration, the most severe changes first. `isSameKey`: both came with one key. Otherwise all
 * hashes differ, and only the rest is compared.
 */
export function compareConfigs(
  before: readonly ConfigItem[],
  after: readonly ConfigItem[],
  isSameKey: boolean,
): ConfigChange[] {
  const old = new Map(before.map((item) => [keyOf(item), item]))
  const now = new Map(after.map((item) => [keyOf(item), item]))
  const keys = [...new Set([...old.keys(), ...now.keys()])]
  return keys
    .flatMap((key) => changeOf(old.get(key), now.get(key), isSameKey))
    .sort((one, other) => weight(severityOf(other)) - weight(severityOf(one)))
}

/** What the first report of a configuration shows without an earlier one: no later one can show a change of these tools. */
export const firstFindings = (items: readonly ConfigItem[]): ConfigChange[] =>
  compareConfigs([], items.filter(isNotCompared), true)

const isNotCompared = ({ kind, name }: Pick<ConfigItem, 'kind' | 'name'>) =>
  kind === 'tool' && name === toolsNotCompared

const watched: readonly ConfigKind[] = ['hook', 'permission', 'server']

/**
 * A tool that is new or has another description after its server was approved may instruct the model; one that is gone
 * cannot.
 */
function severityOf(config: ConfigChange): Severity {
  const { kind, change, unhooked } = config
  if (unhooked) return 'critical'
  if (isNotCompared(config)) return 'info'
  return watched.includes(kind) || (kind === 'tool' && change !== 'removed') ? 'warning' : 'info'
}

const weights: readonly Severity[] = ['info', 'warning', 'critical']
const weight = (severity: Severity) => weights.indexOf(severity)

/** The first one is the most severe. */
export const severityOfChanges = ([first]: readonly ConfigChange[]): Severity => (first ? severityOf(first) : 'info')

const namedChanges = 5
/** Characters of a name in an event: twenty of them with versions are below its limit. */
const shownLength = 100

const shorten = (text: string) => [...text].slice(0, shownLength).join('')

/** Returns the changes as an event lists them. */
export const listChanges = (changes: readonly ConfigChange[]) =>
  changes.slice(0, configLimits.listedChanges).map((change) => {
    const { name, from, to } = change
    return {
      ...change,
      name: shorten(name),
      ...(from === undefined ? {} : { from: shorten(from) }),
      ...(to === undefined ? {} : { to: shorten(to) }),
    }
  })

/** Describes the changes for people. Names are the agent's text. */
export function describeChanges(source: string, changes: readonly ConfigChange[]): string {
  const named = listChanges(changes)
    .slice(0, namedChanges)
    .map(({ kind, name, change, unhooked, from, to }) => {
      if (unhooked) return `Wardline's hook ${name} ${change === 'removed' ? 'removed' : 'weakened'}`
      const versions = from && to ? ` from ${from} to ${to}` : ''
      return `${kind} ${name} ${change}${versions}`
    })
  const more = changes.length - named.length
  return `${source}: ${named.join(', ')}${more > 0 ? `, and ${more} more` : ''}`.slice(0, 900)
}
