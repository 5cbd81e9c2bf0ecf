/** What a tool does, as far as the flow of data is concerned. */
export const labelNames = [
  'untrusted',
  'private',
  'sends',
  'changes',
  'irreversible',
  'directory',
  'inside',
  'fetches',
] as const
export type Label = (typeof labelNames)[number]

/** `when`: labels that hold only when an argument is present and not empty. */
export interface ToolLabels {
  is: readonly Label[]
  /** Arguments that decide where the effect goes, or on what it acts. */
  destination: readonly string[]
  when: Readonly<Record<string, readonly Label[]>>
}

const isPresent = (value: unknown): boolean =>
  value !== undefined &&
  value !== null &&
  value !== '' &&
  value !== false &&
  !(Array.isArray(value) && value.length === 0)

export function labelsOfCall(labels: ToolLabels, args: Readonly<Record<string, unknown>>): Set<Label> {
  const held = new Set(labels.is)
  for (const [name, further] of Object.entries(labels.when)) {
    if (hasArgument(args, name)) for (const label of further) held.add(label)
  }
  return held
}

/** Whether an argument is present and not empty. */
export const hasArgument = (args: Readonly<Record<string, unknown>>, name: string): boolean =>
  Object.hasOwn(args, name) && isPresent(args[name])
