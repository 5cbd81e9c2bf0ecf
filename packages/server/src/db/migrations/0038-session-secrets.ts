import type { Dialect } from '../database.ts'

/**
 * A session needs a second secret, which browsers of existing sessions do not have. These sessions are deleted, also to
 * end their streams, and every user signs in again.
 */
export const sessionSecrets = ({ text }: Dialect['ddl']): string[] => [
  'delete from sessions',
  // Null for sessions started by a process of the previous version during an upgrade; they are refused.
  `alter table sessions add column secret_hash ${text}`,
]
