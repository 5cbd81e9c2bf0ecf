import { sql } from 'kysely'
import { and, type Condition, isActive, isOffline, isSuspended } from './fleet-filter-statements.ts'
import type { ValueColumn } from './queries.ts'

/** Agents with the same value, which a large fleet lists one value after the other. */
export interface Phase {
  value: string
  where: Condition
}

export const onlyPhase: Phase = { value: '', where: and([]) }

export const statusPhases = (now: number): Phase[] => [
  { value: 'suspended', where: isSuspended },
  { value: 'offline', where: isOffline(now) },
  { value: 'active', where: isActive(now) },
]

export const failPhases: readonly Phase[] = [
  { value: 'open', where: sql<boolean>`fail_mode = 'open'` },
  { value: 'closed', where: sql<boolean>`fail_mode = 'closed'` },
  { value: '', where: sql<boolean>`fail_mode is null` },
]

/** One phase for each of the first `max` values, and one for all others. */
export function valuePhases(column: ValueColumn, values: readonly (string | number | null)[], max: number): Phase[] {
  const name = sql.ref(column)
  const phases = values.slice(0, max).map((value) => ({
    value: String(value),
    where: value === null ? sql<boolean>`${name} is null` : sql<boolean>`${name} = ${value}`,
  }))
  if (values.length <= max) return phases
  const listed = values.slice(0, max).filter((value) => value !== null)
  return [...phases, { value: 'others', where: sql<boolean>`${name} not in (${sql.join(listed)})` }]
}

/** Whether an instance comes after this heartbeat and id in the order of heartbeats. */
export const isBeyond = ({ at, id }: { at: number; id: string }, isDown: boolean): Condition => {
  const sign = sql.raw(isDown ? '<' : '>')
  return sql<boolean>`(last_heartbeat_at ${sign} ${at} or (last_heartbeat_at = ${at} and id ${sign} ${id}))`
}
