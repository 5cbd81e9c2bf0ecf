import { type DecoyState, limits } from '@wardline/contract'
import { type ExpressionBuilder, sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import { deleteInPortions } from '../../db/portions.ts'
import type { Schema } from '../../db/schema.ts'
import { isOfTeam, type Team } from '../../db/teams.ts'
import { everyAgent, isOutside } from './decoy-scope.ts'

export type HoneypotRow = Schema['honeypots']
type HitRow = Schema['honeypot_hits']
export type Decoy = Pick<HoneypotRow, 'id' | 'instance_id' | 'type' | 'key_type' | 'path' | 'retired_at'>

const decoyColumns = ['id', 'instance_id', 'type', 'key_type', 'path', 'retired_at'] as const

/** Columns from which the state of a decoy is derived. */
export const inventoryColumns = [
  'deleted_at',
  'planted_at',
  'planted_by',
  'planted_note',
  'planted_file',
  'tripped_at',
  'leaked_at',
  'retired_at',
  'replaced_by',
] as const

export function insertHoneypotStatements(db: Db, row: HoneypotRow, digests: readonly string[]): Statement[] {
  const fingerprints = digests.map((digest) => ({ digest, honeypot_id: row.id }))
  return [
    db.insertInto('honeypots').values(row).compile(),
    ...(fingerprints.length === 0 ? [] : [db.insertInto('honeypot_fingerprints').values(fingerprints).compile()]),
  ]
}

function isInState(e: ExpressionBuilder<Schema, 'honeypots'>, state: DecoyState) {
  if (state === 'retired') return e('retired_at', 'is not', null)
  const current = e('retired_at', 'is', null)
  if (state === 'tripped') return e.and([current, e('tripped_at', 'is not', null)])
  return e.and([current, e('tripped_at', 'is', null), e('planted_at', state === 'issued' ? 'is' : 'is not', null)])
}

/** Which decoys are listed. `instanceId`: of one instance. `team`: of its agents. */
interface Listed {
  instanceId?: string | undefined
  state?: DecoyState | undefined
  team?: Team
}

/** Reads decoys, oldest first. */
const listed = (db: Db, { instanceId, state, team }: Listed) =>
  db
    .selectFrom('honeypots')
    .where('deleted_at', 'is', null)
    .where(isOfTeam('instance_id', team))
    .$if(instanceId !== undefined, (rows) => rows.where('instance_id', '=', instanceId!))
    .$if(state !== undefined, (rows) => rows.where((e) => isInState(e, state!)))
    .orderBy('created_at')
    .orderBy('id')

export function listHoneypotRows(db: Db, which: Listed) {
  return listed(db, which).select(['id', 'type', 'key_type', 'created_at']).execute()
}

/** A hit that a team sees: not by an agent of others. */
const isShownTo = (team: Team) => (e: ExpressionBuilder<Schema, 'honeypot_hits'>) =>
  e.or([e('reporter', 'is', null), isOfTeam('reporter', team)])

/** Time of the first or last hit of the row's decoy. */
const hitAt = (e: ExpressionBuilder<Schema, 'honeypots'>, order: 'asc' | 'desc', team: Team) =>
  e
    .selectFrom('honeypot_hits')
    .select('at')
    .whereRef('honeypot_hits.honeypot_id', '=', 'honeypots.id')
    .where('is_test', '=', 0)
    .where(isShownTo(team))
    .orderBy('at', order)
    .limit(1)

export function listHoneypotDetails(db: Db, which: Listed) {
  const { team } = which
  return listed(db, which)
    .select(['id', 'type', 'key_type', 'created_at', 'instance_id', 'path', 'label'])
    .select(inventoryColumns)
    .select((e) => [
      e
        .selectFrom(
          e
            .selectFrom('honeypot_hits')
            .select('honeypot_hits.id')
            .whereRef('honeypot_hits.honeypot_id', '=', 'honeypots.id')
            .where('is_test', '=', 0)
            .where(isShownTo(team))
            .limit(limits.listedHits)
            .as('counted'),
        )
        .select((counting) => counting.fn.countAll<number>().as('hits'))
        .as('hits'),
      hitAt(e, 'asc', team).as('first_hit'),
      hitAt(e, 'desc', team).as('last_hit'),
    ])
    .execute()
}

/** `team`: undefined also for one of an agent that is not of the team, or of all agents. */
export function findHoneypot(db: Db, id: string, team: Team): Promise<HoneypotRow | undefined> {
  return db
    .selectFrom('honeypots')
    .selectAll()
    .where('id', '=', id)
    .where(isOfTeam('instance_id', team))
    .executeTakeFirst()
}

/** Identifies decoys of these ids without key or path, removed ones included. */
export function readLabels(db: Db, ids: readonly string[]) {
  return db
    .selectFrom('honeypots')
    .select(['id', 'label', 'type', 'key_type', 'instance_id'])
    .where('id', 'in', ids)
    .execute()
}

/** Removes the decoy from matching; its row stays for its hits. The batch fails as stale if it was removed already. */
export function removeHoneypotStatements({ db, dialect }: Database, id: string, now: number): Statement[] {
  const asRead = db.selectFrom('honeypots').select('id').where('id', '=', id).where('deleted_at', 'is', null)
  return [
    dialect.lockFound(asRead.compile()),
    db.updateTable('honeypots').set({ deleted_at: now }).where('id', '=', id).compile(),
    db.deleteFrom('honeypot_fingerprints').where('honeypot_id', '=', id).compile(),
  ]
}

/** Changes a live decoy. The batch fails as stale if it was removed, or with `isCurrent` retired, in the meantime. */
export function updateHoneypot(
  { db, dialect }: Database,
  id: string,
  change: Partial<HoneypotRow>,
  isCurrent = false,
): Statement[] {
  const asRead = db
    .selectFrom('honeypots')
    .select('id')
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .$if(isCurrent, (rows) => rows.where('retired_at', 'is', null))
  return [dialect.lockFound(asRead.compile()), db.updateTable('honeypots').set(change).where('id', '=', id).compile()]
}

export function readPlacedDecoys(db: Db) {
  return listed(db, {}).select(['id', 'instance_id', 'path', 'planted_file']).execute()
}

/** Finds decoys with any of the digests, oldest first. */
export function createDigestLookup({ db, dialect }: Database): (digests: readonly string[]) => Promise<Decoy[]> {
  const asked = (digests: readonly string[]) => {
    const rows = dialect.rowsFromJson(JSON.stringify(digests.map((digest) => [digest])), { digest: 'text' })
    return sql<string>`(select digest from ${rows} as asked)`
  }
  return (digests) =>
    db
      .selectFrom('honeypots')
      .select(decoyColumns)
      .where('deleted_at', 'is', null)
      .where('id', 'in', (e) =>
        e.selectFrom('honeypot_fingerprints').select('honeypot_id').where('digest', 'in', asked(digests)),
      )
      .orderBy('id')
      .execute()
}

/** A URL decoy and the digest of its token. */
export type UrlDecoy = { digest: string; honeypot_id: string; instance_id: string }

export function readUrlDecoys(db: Db, limit: number): Promise<UrlDecoy[]> {
  return db
    .selectFrom('honeypot_fingerprints')
    .innerJoin('honeypots', 'honeypots.id', 'honeypot_fingerprints.honeypot_id')
    .select(['digest', 'honeypot_id', 'instance_id'])
    .where('key_type', '=', 'url')
    .where('deleted_at', 'is', null)
    .limit(limit)
    .execute()
}

export function readPatterns(db: Db): Promise<Decoy[]> {
  return db
    .selectFrom('honeypots')
    .select(decoyColumns)
    .where('is_pattern', '=', 1)
    .where('deleted_at', 'is', null)
    .orderBy('id')
    .execute()
}

/** Reads whether there are decoy keys, and at most `limit` instances with decoy paths. */
export async function readPlanted(db: Db, limit: number): Promise<{ hasKeys: boolean; pathInstances: string[] }> {
  const key = await db
    .selectFrom('honeypots')
    .select('id')
    .where('type', '=', 'api_key')
    .where('deleted_at', 'is', null)
    .limit(1)
    .executeTakeFirst()
  const paths = await db
    .selectFrom('honeypots')
    .select('instance_id')
    .distinct()
    .where('type', '=', 'file_path')
    .where('deleted_at', 'is', null)
    .limit(limit)
    .execute()
  return { hasKeys: key !== undefined, pathInstances: paths.map(({ instance_id }) => instance_id) }
}

/** Reads path decoys after `afterId`, ordered by id. */
export function readPaths(db: Db, afterId: string, limit: number): Promise<Decoy[]> {
  return pathsAfter(db, afterId, limit).execute()
}

/** Reads exact path decoys after `afterId`, ordered by id, of all instances, or of matching ones and of every agent. */
export function readExactPaths(
  db: Db,
  instances: readonly string[] | undefined,
  afterId: string,
  limit: number,
): Promise<Decoy[]> {
  const rows = pathsAfter(db, afterId, limit).where('is_pattern', '=', 0)
  if (instances === undefined) return rows.execute()
  return rows
    .where((e) =>
      e.or(
        [...instances, everyAgent].map((id) =>
          id !== everyAgent && id.endsWith('*')
            ? e('instance_id', 'like', `${id.slice(0, -1)}%`)
            : e('instance_id', '=', id),
        ),
      ),
    )
    .execute()
}

const pathsAfter = (db: Db, afterId: string, limit: number) =>
  db
    .selectFrom('honeypots')
    .select(decoyColumns)
    .where('type', '=', 'file_path')
    .where('deleted_at', 'is', null)
    .where('id', '>', afterId)
    .orderBy('id')
    .limit(limit)

/** Inserts missing digests. */
export function insertFingerprints(db: Db, fingerprints: readonly Schema['honeypot_fingerprints'][]): Statement {
  return db
    .insertInto('honeypot_fingerprints')
    .values(fingerprints)
    .onConflict((conflict) => conflict.doNothing())
    .compile()
}

/** Inserts the hit, and updates its decoy unless the hit is a test or ignored. */
export function hitStatements(db: Db, hit: HitRow, decoy: Pick<Decoy, 'instance_id'>): Statement[] {
  const inserted = db.insertInto('honeypot_hits').values(hit).compile()
  if (hit.is_test === 1 || hit.is_ignored === 1) return [inserted]
  const first = (column: 'tripped_at' | 'leaked_at') =>
    db
      .updateTable('honeypots')
      .set({ [column]: hit.at })
      .where('id', '=', hit.honeypot_id)
      .where(column, 'is', null)
      .compile()
  return [inserted, first('tripped_at'), ...(isOutside(hit.reporter, decoy) ? [first('leaked_at')] : [])]
}

/** Whether a check of the agent, or with `isAny` also a reported call, has touched the decoy since then. */
export async function hasTouched(
  db: Db,
  { decoyId, reporter, since, isAny }: { decoyId: string; reporter: string; since: number; isAny: boolean },
): Promise<boolean> {
  const hit = await db
    .selectFrom('honeypot_hits')
    .select('id')
    .where('honeypot_id', '=', decoyId)
    .where('at', '>=', since)
    .where('reporter', '=', reporter)
    .where('is_test', '=', 0)
    .$if(!isAny, (rows) => rows.where((e) => e.or([e('form', 'is', null), e('form', '!=', 'reported')])))
    .limit(1)
    .executeTakeFirst()
  return hit !== undefined
}

/** Reads the digests of a decoy; a handful of rows. */
export async function readDigests(db: Db, honeypotId: string): Promise<Set<string>> {
  const rows = await db
    .selectFrom('honeypot_fingerprints')
    .select('digest')
    .where('honeypot_id', '=', honeypotId)
    .execute()
  return new Set(rows.map(({ digest }) => digest))
}

interface Hits {
  /** The latest hits. */
  hits: HitRow[]
  count: number
  first: number | null
}

export async function readHits(
  db: Db,
  honeypotId: string,
  { limit, team }: { limit: number; team: Team },
): Promise<Hits> {
  const shown = db.selectFrom('honeypot_hits').where('honeypot_id', '=', honeypotId).where(isShownTo(team))
  const { count, first } = await shown
    .select((e) => [e.fn.countAll<number>().as('count'), e.fn.min<number | null>('at').as('first')])
    .where('is_test', '=', 0)
    .executeTakeFirstOrThrow()
  const hits = await shown.selectAll().orderBy('at', 'desc').limit(limit).execute()
  return { hits, count, first }
}

export const deleteHitsBefore = (db: Db, floor: string, stopping?: AbortSignal): Promise<void> =>
  deleteInPortions(db, 'honeypot_hits', { key: ['id'], where: sql`id < ${floor}`, orderBy: 'id' }, stopping)
