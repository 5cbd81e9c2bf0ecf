import type { Dialect } from '../database.ts'

/** To which team the operator was limited who suspended or resumed agents, asked for a resume, or started a drill. */
export const teamOperations = ({ text }: Dialect['ddl']): string[] => [
  `alter table containments add column team ${text}`,
  `alter table resume_requests add column team ${text}`,
  `alter table drills add column team ${text}`,
]
