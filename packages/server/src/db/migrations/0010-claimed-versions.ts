import type { Dialect } from '../database.ts'

/** Control versions above the service's own that agents report as applied, after a restore or a forged message. */
export const claimedVersions = ({ bigint }: Dialect['ddl']): string[] => [
  `alter table instances add column claimed_version ${bigint}`,
]
