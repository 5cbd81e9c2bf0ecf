import type { Dialect } from '../database.ts'

/** What supervisors answer to drills, and when one last proved that it reaches its agent. */
export const drillsSupervised = ({ bigint }: Dialect['ddl']): string[] => [
  `alter table drill_asks add column supervisor_at ${bigint}`,
  `alter table drill_asks add column processes ${bigint}`,
  `alter table drill_asks add column unreachable ${bigint}`,
  `alter table instances add column supervisor_proven_at ${bigint}`,
]
