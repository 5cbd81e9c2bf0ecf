import type { Dialect } from '../database.ts'

/**
 * Distinguishes keys of events and batches by a column instead of a word appended to the caller, and stores the ids of
 * a batch as a JSON array. Uses a new table, because SQLite cannot change a primary key.
 */
export const idempotencyKinds = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table idempotency_keys_by_kind (
    caller ${text} not null,
    kind ${text} not null default 'event' check (kind in ('event', 'batch')),
    key ${text} not null,
    event_id ${text} not null,
    created_at ${bigint} not null,
    primary key (caller, kind, key)
  )`,
  `insert into idempotency_keys_by_kind (caller, kind, key, event_id, created_at)
    select caller, 'event', key, event_id, created_at from idempotency_keys
    where caller not like '% batch'`,
  `insert into idempotency_keys_by_kind (caller, kind, key, event_id, created_at)
    select replace(caller, ' batch', ''), 'batch', key, '["' || replace(event_id, ' ', '","') || '"]', created_at
    from idempotency_keys where caller like '% batch'`,
  `drop table idempotency_keys`,
  `alter table idempotency_keys_by_kind rename to idempotency_keys`,
  `create index idempotency_keys_by_age on idempotency_keys (created_at)`,
]
