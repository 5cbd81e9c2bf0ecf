import type { Dialect } from '../database.ts'

/** Tags of an instance, reported by its agent or set by operators. */
export const instanceTags = ({ text }: Dialect['ddl']): string[] => [
  `alter table instances add column agent_tags ${text}`,
  `alter table instances add column operator_tags ${text}`,
]
