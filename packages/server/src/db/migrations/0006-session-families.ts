import type { Dialect } from '../database.ts'

/**
 * Sessions could renew themselves for ever, and those that did cannot be identified. All sessions are therefore deleted
 * and every user logs in again.
 */
export const sessionFamilies = ({ text }: Dialect['ddl']): string[] => [
  'delete from sessions',
  // Null for sessions started by a process of the previous version during an upgrade.
  `alter table sessions add column family ${text}`,
  'create index sessions_by_family on sessions (family)',
]
