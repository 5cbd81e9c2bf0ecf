import type { Dialect } from '../database.ts'

/** Agents in a request to resume more of them than a list shows; the second operator confirms exactly these. */
export const resumeMembers = ({ text }: Dialect['ddl']): string[] => [
  `alter table resume_requests add column members ${text}`,
]
