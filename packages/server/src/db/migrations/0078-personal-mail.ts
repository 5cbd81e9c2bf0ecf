import type { Dialect } from '../database.ts'

/** Which alerts are mailed to whom, and by which channel. Alerts so far are not. */
export const personalMail = ({ bigint, text, clustered }: Dialect['ddl']): string[] => [
  `alter table people add column mail_address ${text}`,
  `alter table people add column ended_at ${bigint}`,
  `create table mail_choices (person_id ${text} primary key, assigned ${bigint} not null, tags ${text} not null)`,
  `alter table alert_channels add column personal_mail ${bigint} not null default 0`,
  `alter table alert_messages add column person_id ${text}`,
  `create index alert_messages_by_person on alert_messages (person_id, created_at) where person_id is not null`,
  `create table alert_notices (
    person_id ${text} not null, alert_seq ${bigint} not null, tag ${text}, at ${bigint} not null, held ${bigint} not null,
    primary key (person_id, alert_seq)
  ) ${clustered}`,
  `insert into counters (name, value) select 'mailed_seq', value from counters where name = 'alert_seq'`,
]
