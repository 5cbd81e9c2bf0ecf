import type { Dialect } from '../database.ts'

/** The pinned note of each agent. Besides `instances`, whose rows every heartbeat writes. */
export const agentNotes = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table agent_notes (
    instance_id ${text} primary key, author ${text} not null, at ${bigint} not null, text ${text} not null
  )`,
]
