import type { Dialect } from '../database.ts'

/** Attestations of earlier versions stay unsigned. */
export const signedAttestations = ({ text }: Dialect['ddl']): string[] => [
  `alter table attestations add column uid ${text}`,
  `alter table attestations add column signed ${text}`,
  'create index attestations_uid on attestations (uid)',
]
