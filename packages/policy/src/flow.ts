import { type Label, labelNames, labelsOfCall, type ToolLabels } from './labels.ts'
import type { AnsweredTool, SessionMemory } from './memory.ts'
import { leavesOf } from './values.ts'

export const flows = ['off', 'default', 'strict'] as const
export type Flow = (typeof flows)[number]

/** What asks after untrusted text: in `default` what leaves or cannot be undone, in `strict` every change too. */
const asksAbout: Record<Flow, readonly Label[]> = {
  off: [],
  default: ['sends', 'irreversible'],
  strict: ['sends', 'irreversible', 'changes'],
}

/** Destinations of a call that are looked for one by one. */
const maxDestinations = 500

const words: Partial<Record<Label, string>> = {
  sends: 'sends data out',
  irreversible: 'cannot be undone',
  changes: 'changes state',
}

/**
 * Why a call has to be asked about: it has an effect after untrusted text was read, and its destination neither stands in
 * a prompt nor is a whole value of a directory's answer. Undefined: it does not. `labelsOf` has the labels of a policy.
 */
export function flowAsks(
  flow: Flow,
  memory: SessionMemory,
  labelsOf: (tool: string) => ToolLabels,
  { tool, args, isComplete }: { tool: string; args: Readonly<Record<string, unknown>>; isComplete: boolean },
): string | undefined {
  if (flow === 'off') return undefined
  const labels = labelsOf(tool)
  // Arguments that were not read may be the ones on which a label depends.
  const held = isComplete ? labelsOfCall(labels, args) : new Set([...labels.is, ...Object.values(labels.when).flat()])
  const effect = asksAbout[flow].find((label) => held.has(label))
  if (effect === undefined) return undefined
  const had = answeredWith(labelsOf)
  const source = memory.answered(had('untrusted')) ?? (memory.hasMoreTools ? 'one of many tools' : undefined)
  if (source === undefined) return undefined
  const because = `${words[effect]} after untrusted text was read (${source})`
  if (!isComplete) return `The call ${because}, and its arguments cannot be read as a whole.`
  const destinations = destinationsOf(labels, args)
  if (destinations.length === 0) return `The call ${because}, and it names no destination.`
  if (destinations.length > maxDestinations) return `The call ${because}, and it names too many destinations.`
  const mayFetch = flow === 'default' && held.has('fetches')
  const isKnown = (text: string) => memory.proves(text, had('directory')) || (mayFetch && memory.saw(text))
  if (destinations.every(isKnown)) return undefined
  return `The call ${because}, and its destination is neither in the prompt nor the value of a directory.`
}

const destinationsOf = ({ destination }: ToolLabels, args: Readonly<Record<string, unknown>>): string[] =>
  destination.flatMap((name) => leavesOf(Object.hasOwn(args, name) ? args[name] : undefined))

const hasLabel = (labels: ToolLabels, args: ReadonlySet<string>, label: Label): boolean =>
  labels.is.includes(label) ||
  Object.entries(labels.when).some(([name, further]) => args.has(name) && further.includes(label))

type LabelsOf = (tool: string) => ToolLabels

const answeredWith = (labelsOf: LabelsOf) => (label: Label) => (answered: AnsweredTool) =>
  hasLabel(labelsOf(answered.name), answered.args, label)

/** What a flow knows of a call before it runs. */
export interface FlowFacts {
  /** Labels of the tools that have answered. */
  met: Label[]
  /** Whether the call has destinations, and all stand in a prompt or are values of a directory. */
  proven: boolean
}

/** Returns what a later replay needs to judge a call without its session; undefined without a flow. */
export function flowFacts(
  flow: Flow,
  memory: SessionMemory,
  labelsOf: LabelsOf,
  { tool, args, isComplete }: { tool: string; args: Readonly<Record<string, unknown>>; isComplete: boolean },
): FlowFacts | undefined {
  if (flow === 'off') return undefined
  const had = answeredWith(labelsOf)
  const isMet = (label: Label) =>
    memory.answered(had(label)) !== undefined || (label === 'untrusted' && memory.hasMoreTools)
  const destinations = destinationsOf(labelsOf(tool), args)
  const isProven = (text: string) => memory.proves(text, had('directory'))
  return {
    met: labelNames.filter(isMet),
    proven: isComplete && destinations.length > 0 && destinations.every(isProven),
  }
}
