import type { Dialect } from '../database.ts'

/**
 * Comments take the place of the one note of an alert, whose author is not known: the last change of an alert need not be
 * that of its note. The column of notes stays for processes of older versions.
 */
export const comments = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table alert_comments (
    id ${text} primary key, alert_seq ${bigint} not null, author ${text} not null, at ${bigint} not null, text ${text},
    deleted_by ${text}
  )`,
  `create index alert_comments_by_alert on alert_comments (alert_seq)`,
  `insert into alert_comments (id, alert_seq, author, at, text)
    select id, seq, 'unknown', coalesce(changed_at, created_at), note from alerts where note is not null`,
]
