import type { Awaited, FiredEvent, Group, Groups } from './groups.ts'

// Correlations that match because something is missing.

/** Adds an event whose window begins. One with more events since than `max` allows no longer waits. */
export function addAwaited(
  groups: Groups,
  group: Group,
  { time, event }: { time: number; event: FiredEvent },
  max: number,
): void {
  const { id, seq, instance_id, session_id, by_service } = event
  const kept = { id, seq, instance_id, session_id, by_service }
  const added: Awaited = { group, time, event: kept, older: undefined, newer: undefined }
  group.awaited ??= []
  group.awaited.push(added)
  groups.awaited.append(added)
  if (group.awaited.length > max) groups.awaited.unlink(group.awaited.shift()!)
  groups.changed(group)
}

/** Takes the oldest event whose window began before a time, with the count and the newest events of it; undefined if there is none. */
export function takeEnded(groups: Groups, before: number, newest: number) {
  const { oldest } = groups.awaited
  if (oldest === undefined || oldest.time >= before) return undefined
  const { group, event, time } = oldest
  const count = group.awaited!.length
  // No event after the window was added yet, because time passes before an event is processed.
  const seqs = group.awaited!.slice(-newest).map((each) => each.event.seq!)
  groups.awaited.unlink(group.awaited!.shift()!)
  groups.changed(group)
  const ofOneInstance = group.instance !== undefined && event.seq! >= group.instanceSince
  return { group: group.text, event, time, count, seqs, ofOneInstance }
}

interface Matching {
  /** Whether the event matches the first rule, and the second one. */
  steps: readonly boolean[]
  instance: string
  time: number
  seq: number
  timespan: number
  /** Before this time nothing is known. */
  since: number
}

/** Whether an event matches the first rule, and none within the timespan before it the second one, which it may become. */
export function isUnpreceded(groups: Groups, key: string, matching: Matching): boolean {
  const { steps, instance, time, seq, timespan, since } = matching
  const from = time - timespan
  const before = groups.find(key)?.steps?.[0]
  const isPreceded = before !== undefined && before !== null && before[0] >= from
  if (steps[1]) {
    const group = groups.enter(key, instance, { time, since: from })
    group.steps = [[time, seq]]
    groups.changed(group)
  }
  return steps[0] === true && !isPreceded && since <= from
}
