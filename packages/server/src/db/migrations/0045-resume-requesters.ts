import type { Dialect } from '../database.ts'

/**
 * Who requested a resume that another operator confirmed. Waiting requests of several agents are identified by their
 * agents, no longer by the selector: those of before have to be made again.
 */
export const resumeRequesters = ({ text }: Dialect['ddl']): string[] => [
  `alter table containments add column requested_by ${text}`,
  `delete from resume_requests where instance_id is null`,
]
