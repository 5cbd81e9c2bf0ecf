import type { Dialect } from '../database.ts'

/** Who is named by a request to resume more agents than a list shows: the second operator confirms these. */
export const resumeMembers = ({ text }: Dialect['ddl']): string[] => [
  `alter table resume_requests add column members ${text}`,
]
