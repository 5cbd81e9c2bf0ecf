import type { Dialect } from '../database.ts'

/** A control version above the service's own that an agent says it applied: after a restore, or a forged message. */
export const claimedVersions = ({ bigint }: Dialect['ddl']): string[] => [
  `alter table instances add column claimed_version ${bigint}`,
]
