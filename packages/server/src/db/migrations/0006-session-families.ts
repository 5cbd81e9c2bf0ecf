import type { Dialect } from '../database.ts'

/** Until now a session could renew itself for ever: those that did are not told apart, so everybody logs in again. */
export const sessionFamilies = ({ text }: Dialect['ddl']): string[] => [
  'delete from sessions',
  // Null on what a process of the version before starts during an upgrade.
  `alter table sessions add column family ${text}`,
  'create index sessions_by_family on sessions (family)',
]
