import type { Dialect } from '../database.ts'

/**
 * The end of a temporary suspension stands in its row, so that whatever takes it over ends its timer as well. Parts of a
 * containment may be instances that registered while it held.
 */
export const suspensionEnds = ({ bigint }: Dialect['ddl']): string[] => [
  `alter table suspensions add column ends_at ${bigint}`,
  `update suspensions set ends_at = (select timed.ends_at from rule_suspensions as timed
      where timed.instance_id = suspensions.instance_id and timed.version = suspensions.version)
    where resumed_at is null and exists (select 1 from rule_suspensions as timed
      where timed.instance_id = suspensions.instance_id and timed.version = suspensions.version
        and timed.ended_at is null)`,
  'delete from rule_suspensions',
  `alter table containment_parts add column joined ${bigint} not null default 0`,
  'create index suspensions_ends on suspensions (ends_at) where ends_at is not null and resumed_at is null',
]
