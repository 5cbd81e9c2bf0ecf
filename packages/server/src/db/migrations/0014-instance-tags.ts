import type { Dialect } from '../database.ts'

/** Tags of an instance: those that its agent reports, and those that operators set. */
export const instanceTags = ({ text }: Dialect['ddl']): string[] => [
  `alter table instances add column agent_tags ${text}`,
  `alter table instances add column operator_tags ${text}`,
]
