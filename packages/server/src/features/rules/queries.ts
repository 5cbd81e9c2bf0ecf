import { sql } from 'kysely'
import { hourMs } from '../../clock.ts'
import { readCounter } from '../../db/counters.ts'
import type { Db, Trx } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import { isOfTeam, type Team } from '../../db/teams.ts'

export type RuleRow = Schema['rules']

/** Reads all rules, ordered by title: there are few. */
export function readRules(db: Db): Promise<RuleRow[]> {
  return db.selectFrom('rules').selectAll().orderBy('title').orderBy('id').execute()
}

export function findRule(db: Db, id: string): Promise<RuleRow | undefined> {
  return db.selectFrom('rules').selectAll().where('id', '=', id).executeTakeFirst()
}

export async function countRules(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('rules')
    .select((e) => e.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Adds up the costs of all rules but this one. */
export async function readOtherCosts(db: Db, id: string): Promise<number> {
  const { cost } = await db
    .selectFrom('rules')
    .select((e) => e.fn.sum<number>('cost').as('cost'))
    .where('id', '!=', id)
    .executeTakeFirstOrThrow()
  return Number(cost ?? 0)
}

/** Stores what a version of a rule costs, and what runs of it. */
export async function storeCompiled(
  db: Db,
  { id, version }: Pick<RuleRow, 'id' | 'version'>,
  compiled: Pick<RuleRow, 'cost' | 'document'>,
): Promise<void> {
  await db.updateTable('rules').set(compiled).where('id', '=', id).where('version', '=', version).execute()
}

/** Returns the last version of a rule with this id, also of a deleted one; 0: none. */
export async function readLastVersion(db: Db, id: string): Promise<number> {
  const { version } = await db
    .selectFrom('rule_versions')
    .select((e) => e.fn.max('version').as('version'))
    .where('rule_id', '=', id)
    .executeTakeFirstOrThrow()
  return Number(version ?? 0)
}

async function insertVersion(trx: Trx, { id, version, text, format, changed_at, changed_by }: RuleRow): Promise<void> {
  await trx
    .insertInto('rule_versions')
    .values({ rule_id: id, version, text, format, created_at: changed_at, created_by: changed_by })
    .execute()
}

export async function insertRule(trx: Trx, row: RuleRow): Promise<void> {
  await trx.insertInto('rules').values(row).execute()
  await insertVersion(trx, row)
}

export async function updateRule(trx: Trx, row: RuleRow, isNewVersion: boolean): Promise<void> {
  const { id, created_at: _createdAt, list_changes: _listChanges, ...columns } = row
  await trx.updateTable('rules').set(columns).where('id', '=', id).execute()
  if (isNewVersion) await insertVersion(trx, row)
}

/** Sets the mode of rules. */
export async function updateModes(
  trx: Trx,
  ids: readonly string[],
  columns: Pick<RuleRow, 'mode' | 'changed_at' | 'changed_by'>,
): Promise<void> {
  await trx.updateTable('rules').set(columns).where('id', 'in', ids).execute()
}

/** Reads what changes when a rule changes. */
export function readRuleStates(trx: Trx, ids: readonly string[]) {
  return trx.selectFrom('rules').select(['id', 'version', 'mode']).where('id', 'in', ids).execute()
}

/** Deletes a rule. Its versions and firings stay as a record of the reasons for actions. */
export async function removeRule(trx: Trx, id: string): Promise<void> {
  await trx.deleteFrom('rules').where('id', '=', id).execute()
  await trx.deleteFrom('rule_values').where('rule_id', '=', id).execute()
  await trx.deleteFrom('rule_starts').where('rule_id', '=', id).execute()
}

/** Reads the versions, newest first, without texts. */
export function readVersions(db: Db, id: string, limit: number) {
  return db
    .selectFrom('rule_versions')
    .select(['version', 'created_at', 'created_by'])
    .where('rule_id', '=', id)
    .orderBy('version', 'desc')
    .limit(limit)
    .execute()
}

export function findVersion(db: Db, id: string, version: number) {
  return db
    .selectFrom('rule_versions')
    .selectAll()
    .where('rule_id', '=', id)
    .where('version', '=', version)
    .executeTakeFirst()
}

/** Counts firings by rule and hour, from an hour on. */
export function readFiringHours(db: Db, { from, to, id }: { from: number; to: number; id?: string }) {
  let query = db
    .selectFrom('rule_hours')
    .select(['rule_id', 'hour', 'count', 'suppressed'])
    .where('hour', '>=', from)
    .where('hour', '<', to)
  if (id !== undefined) query = query.where('rule_id', '=', id)
  return query.orderBy('hour').execute()
}

/** Counts the stored firings about a team's agents by rule and hour, with the time of the last: the counters have no agent. */
export async function readTeamHours(
  db: Db,
  team: readonly string[],
  { from, to, id }: { from: number; to: number; id?: string },
): Promise<{ rule_id: string; hour: number; count: number; suppressed: number; last: number }[]> {
  const { rows } = await sql<{ rule_id: string; hour: number; count: number; last: number }>`
    select rule_id, hour, count(*) as count, max(fired_at) as last from (
      select rule_id, fired_at, fired_at - fired_at % ${hourMs} as hour from rule_firings
      where created_at >= ${from} and fired_at >= ${from} and fired_at < ${to} and ${isOfTeam('instance_id', team)}
      ${id === undefined ? sql`` : sql`and rule_id = ${id}`}
    ) as fired group by rule_id, hour order by hour`.execute(db)
  return rows.map((row) => ({ ...row, hour: Number(row.hour), count: Number(row.count), suppressed: 0 }))
}

/** Adds up the firings of each rule, from an hour on. */
export async function readFiringCounts(db: Db, from: number): Promise<Map<string, number>> {
  const rows = await db
    .selectFrom('rule_hours')
    .select((e) => ['rule_id', e.fn.sum<number>('count').as('count')])
    .where('hour', '>=', from)
    .groupBy('rule_id')
    .execute()
  return new Map(rows.map(({ rule_id, count }) => [rule_id, Number(count)]))
}

/** Reads the time of each rule's last firing. */
export async function readLastFirings(db: Db, ids: readonly string[]): Promise<Map<string, number>> {
  const found = await Promise.all(
    ids.map(async (id) => {
      const { at } = await db
        .selectFrom('rule_firings')
        .select((e) => e.fn.max('fired_at').as('at'))
        .where('rule_id', '=', id)
        .executeTakeFirstOrThrow()
      return [id, at] as const
    }),
  )
  return new Map(found.flatMap(([id, at]) => (at === null ? [] : [[id, Number(at)] as const])))
}

interface FiringFilter {
  before: number
  from: number
  to: number
  limit: number
}

export function readFirings(db: Db, id: string, { before, from, to, limit }: FiringFilter, team: Team) {
  return db
    .selectFrom('rule_firings')
    .selectAll()
    .where(isOfTeam('instance_id', team))
    .where('rule_id', '=', id)
    .where('seq', '<', before)
    .where('fired_at', '>=', from)
    .where('fired_at', '<', to)
    .orderBy('seq', 'desc')
    .limit(limit)
    .execute()
}

export function readResponses(db: Db, id: string, seqs: readonly number[]) {
  return db
    .selectFrom('rule_responses')
    .selectAll()
    .where('rule_id', '=', id)
    .where('seq', 'in', seqs)
    .orderBy('position')
    .execute()
}

/** Reads the last event that the rules processed, and the last stored one. */
export async function readRunnerProgress(db: Db): Promise<{ seq: number; newest: number }> {
  const { seq } = await db.selectFrom('rule_runner').select('seq').executeTakeFirstOrThrow()
  return { seq: Number(seq), newest: await readCounter(db, 'event_seq') }
}

/** A firing with its version of the rule, and the seqs of its events. */
export interface FiringEvents {
  rule_id: string
  version: number
  seqs: number[]
}

const firingEvents = (row: { rule_id: string; version: number; events: string }): FiringEvents => ({
  rule_id: row.rule_id,
  version: row.version,
  seqs: (JSON.parse(row.events) as [number, string][]).map(([seq]) => seq),
})

const firingsOf = (db: Db) => db.selectFrom('rule_firings').selectAll('rule_firings')

/** Reads the firings that an event completed, by its primary key for each rule. */
export async function readFiringsAt(db: Db, seq: number): Promise<FiringEvents[]> {
  const rows = await firingsOf(db)
    .innerJoin('rules', 'rules.id', 'rule_firings.rule_id')
    .where('seq', '=', seq)
    .orderBy('title')
    .execute()
  return rows.map(firingEvents)
}

/** Finds the firing that a rule_matched event reports. It is stored with the event, so that the search is short. */
export async function findFiringOf(
  db: Db,
  { rule, matchedId, seq }: { rule: string; matchedId: string; seq: number },
): Promise<FiringEvents | undefined> {
  const row = await firingsOf(db)
    .where('rule_id', '=', rule)
    .where('seq', '<', seq)
    .where('matched_id', '=', matchedId)
    .orderBy('seq', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row && firingEvents(row)
}

/** Firings searched for one that counts an event. */
const searchedFirings = 50

/** Finds the first firing of a rule that counts an event, among those that follow it. */
export async function findFiringWith(db: Db, rule: string, seq: number): Promise<FiringEvents | undefined> {
  const rows = await firingsOf(db)
    .where('rule_id', '=', rule)
    .where('seq', '>=', seq)
    .orderBy('seq')
    .limit(searchedFirings)
    .execute()
  return rows.map(firingEvents).find(({ seqs }) => seqs.includes(seq))
}
