import type { Dialect } from '../database.ts'

/** Messages to people about one incident answer or extend the first one. */
export const alertThreads = ({ text }: Dialect['ddl']): string[] => [
  `alter table alert_messages add column subject ${text}`,
  `alter table alert_messages add column reference ${text}`,
  `create index alert_messages_by_subject on alert_messages (channel_id, subject, created_at) where subject is not null`,
]
