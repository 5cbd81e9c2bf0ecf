import { type Label, labelsOfCall, type ToolLabels } from './labels.ts'
import type { SessionMemory } from './memory.ts'
import { leavesOf } from './values.ts'

export const flows = ['off', 'default', 'strict'] as const
export type Flow = (typeof flows)[number]

/** What asks after untrusted text: in `default` what leaves or cannot be undone, in `strict` every change too. */
const asksAbout: Record<Flow, readonly Label[]> = {
  off: [],
  default: ['sends', 'irreversible'],
  strict: ['sends', 'irreversible', 'changes'],
}

const words: Partial<Record<Label, string>> = {
  sends: 'sends data out',
  irreversible: 'cannot be undone',
  changes: 'changes state',
}

/**
 * Why a call has to be asked about: it has an effect after untrusted text was read, and its destination neither stands in
 * a prompt nor is a whole value of a directory's answer. Undefined: it does not.
 */
export function flowAsks(
  flow: Flow,
  memory: SessionMemory,
  labels: ToolLabels,
  args: Readonly<Record<string, unknown>>,
): string | undefined {
  const held = labelsOfCall(labels, args)
  const effect = asksAbout[flow].find((label) => held.has(label))
  const source = memory.met('untrusted')
  if (effect === undefined || source === undefined) return undefined
  const destinations = labels.destination.flatMap((name) => leavesOf(args[name]))
  const because = `${words[effect]} after untrusted text was read (${source})`
  if (destinations.length === 0) return `The call ${because}, and it names no destination.`
  const mayFetch = flow === 'default' && held.has('fetches')
  const unknown = destinations.filter((text) => !memory.proves(text) && !(mayFetch && memory.saw(text)))
  if (unknown.length === 0) return undefined
  return `The call ${because}, and its destination is neither in the prompt nor the value of a directory.`
}
