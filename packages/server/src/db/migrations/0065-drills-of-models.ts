import type { Dialect } from '../database.ts'

/** What model gateways and supervisors say to drills, and what they do not. */
export const drillsOfModels = ({ bigint }: Dialect['ddl']): string[] => [
  `alter table drill_asks add column model_at ${bigint}`,
  `alter table drill_asks add column model_calls ${bigint}`,
  `alter table drill_asks add column supervisor_missed ${bigint}`,
  `alter table instances add column model_proven_at ${bigint}`,
]
