import type { Dialect } from '../database.ts'

/** How long an instance is usually silent, and what its silence means now. */
export const silence = ({ bigint }: Dialect['ddl']): string[] => [
  `alter table instances add column typical_gap_ms ${bigint} not null default 60000`,
  `alter table instances add column longest_gap_ms ${bigint} not null default 60000`,
  `alter table instances add column seen_at ${bigint}`,
  `alter table instances add column suspected_at ${bigint}`,
  `alter table instances add column left_at ${bigint}`,
  // Only who was reported as silent is reported as back.
  `update instances set suspected_at = last_heartbeat_at where liveness = 'offline'`,
]
