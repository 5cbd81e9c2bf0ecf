import type { Dialect } from '../database.ts'

/**
 * Adds a separate column for the ids of a batch. Existing rows keep them in `event_id`, stay readable and expire after
 * a day. Rewriting millions of rows would take long, while processes of the previous version write more of them.
 */
export const batchIds = ({ text }: Dialect['ddl']): string[] => [
  `alter table idempotency_keys add column batch_ids ${text}`,
]
