import type { Dialect } from '../database.ts'

/** States of decoys, details of hits, and tools whose hits are ignored. */
export const decoyInventory = ({ bigint, text }: Dialect['ddl']): string[] => [
  `alter table honeypots add column planted_at ${bigint}`,
  `alter table honeypots add column planted_by ${text}`,
  `alter table honeypots add column planted_note ${text}`,
  `alter table honeypots add column planted_file ${text}`,
  `alter table honeypots add column tripped_at ${bigint}`,
  `alter table honeypots add column leaked_at ${bigint}`,
  `alter table honeypots add column retired_at ${bigint}`,
  `alter table honeypots add column replaced_by ${text}`,
  `alter table honeypot_hits add column form ${text}`,
  'alter table honeypot_hits add column is_test integer not null default 0',
  'alter table honeypot_hits add column is_ignored integer not null default 0',
  `update honeypots set
    tripped_at = (select min(at) from honeypot_hits where honeypot_id = honeypots.id),
    leaked_at = (select min(at) from honeypot_hits
      where honeypot_id = honeypots.id and reporter <> honeypots.instance_id)`,
  `create table decoy_ignores (
    id ${text} primary key, tool ${text} not null, reason ${text} not null, until_at ${bigint} not null,
    created_at ${bigint} not null, created_by ${text} not null
  )`,
]
