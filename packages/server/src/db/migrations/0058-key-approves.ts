import type { Dialect } from '../database.ts'

/** Keys of operators can be limited to approvals of agents with certain tags. */
export const keyApproves = ({ text }: Dialect['ddl']): string[] => [`alter table api_keys add column approves ${text}`]
