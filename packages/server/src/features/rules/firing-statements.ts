import type { Db } from '../../db/database.ts'

interface FiringRange {
  instanceId: string
  from: number
  to: number
}

/** Selects firings on an instance. They are stored after the event, so their age limits the search. */
const firingsOf = (db: Db, { instanceId, from, to }: FiringRange) =>
  db
    .selectFrom('rule_firings')
    .where('created_at', '>=', from)
    .where('fired_at', '>=', from)
    .where('fired_at', '<', to)
    .where('instance_id', '=', instanceId)

export function readInstanceFirings(db: Db, range: FiringRange, after: { seq: number; ruleId: string }, limit: number) {
  return firingsOf(db, range)
    .selectAll()
    .where((e) => e.or([e('seq', '>', after.seq), e.and([e('seq', '=', after.seq), e('rule_id', '>', after.ruleId)])]))
    .orderBy('seq')
    .orderBy('rule_id')
    .limit(limit)
    .execute()
}

export async function countInstanceFirings(db: Db, range: FiringRange): Promise<number> {
  const { count } = await firingsOf(db, range)
    .select((e) => e.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Reads the versions of rules that fired on an instance, ordered by rule and version. */
export function readFiredVersions(
  db: Db,
  range: FiringRange,
  after: { ruleId: string; version: number },
  limit: number,
) {
  return db
    .selectFrom('rule_versions')
    .selectAll()
    .where((e) =>
      e(
        e.refTuple('rule_id', 'version'),
        'in',
        firingsOf(db, range).select(['rule_id', 'version']).distinct().$asTuple('rule_id', 'version'),
      ),
    )
    .where((e) =>
      e.or([
        e('rule_id', '>', after.ruleId),
        e.and([e('rule_id', '=', after.ruleId), e('version', '>', after.version)]),
      ]),
    )
    .orderBy('rule_id')
    .orderBy('version')
    .limit(limit)
    .execute()
}

/** Reads the responses to the firings with these seqs. */
export function readFiringResponses(db: Db, seqs: readonly number[]) {
  return db.selectFrom('rule_responses').selectAll().where('seq', 'in', seqs).orderBy('position').execute()
}
