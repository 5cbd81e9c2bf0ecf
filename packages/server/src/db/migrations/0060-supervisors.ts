import type { Dialect } from '../database.ts'

/** Keys of supervisors, and which agents have a supervisor. */
export const supervisors = ({ bigint }: Dialect['ddl']): string[] => [
  `alter table api_keys add column supervises ${bigint}`,
  `alter table instances add column supervised_at ${bigint}`,
]
