import type { Dialect } from '../database.ts'

/** Saved dashboard views. */
export const savedViews = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table views (
    id ${text} primary key, owner ${text} not null, name ${text} not null, screen ${text} not null,
    query ${text} not null, shared ${bigint} not null, created_at ${bigint} not null, changed_at ${bigint} not null
  )`,
]
