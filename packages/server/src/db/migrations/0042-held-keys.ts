import type { Dialect } from '../database.ts'

/** A fleet stop holds the keys of agents that were suspended before it as well. */
export const heldKeys = ({ text }: Dialect['ddl']): string[] => [
  `alter table suspensions add column key_containment_id ${text}`,
]
