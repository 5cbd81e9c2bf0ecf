import type { Dialect } from '../database.ts'

/**
 * The ids of a batch get a column of their own. Rows of the version before, whose `event_id` holds them, are read as they
 * are and are gone after a day: millions of them would take long to rewrite, while processes of that version write more.
 */
export const batchIds = ({ text }: Dialect['ddl']): string[] => [
  `alter table idempotency_keys add column batch_ids ${text}`,
]
