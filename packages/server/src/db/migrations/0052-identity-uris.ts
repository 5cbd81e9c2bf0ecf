import type { Dialect } from '../database.ts'

/** The address of the registration file, as the registry has it. */
export const identityUris = ({ text }: Dialect['ddl']): string[] => [
  `alter table chain_identities add column uri ${text}`,
]
