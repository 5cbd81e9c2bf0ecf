import type { Dialect } from '../database.ts'

/** Usual heartbeat gaps of each instance, and the state of its current silence. */
export const silence = ({ bigint }: Dialect['ddl']): string[] => [
  `alter table instances add column typical_gap_ms ${bigint} not null default 60000`,
  `alter table instances add column longest_gap_ms ${bigint} not null default 60000`,
  `alter table instances add column seen_at ${bigint}`,
  `alter table instances add column suspected_at ${bigint}`,
  `alter table instances add column left_at ${bigint}`,
  // Recovery is only reported for instances that were reported as offline.
  `update instances set suspected_at = last_heartbeat_at where liveness = 'offline'`,
]
