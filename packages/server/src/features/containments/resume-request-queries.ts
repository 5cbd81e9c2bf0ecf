import type { ExpressionBuilder } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import { isOfTeam, isWithinTeam, type Team } from '../../db/teams.ts'

export type ResumeRequestRow = Schema['resume_requests']

export function findRequest(db: Db, target: string, now: number, team?: Team): Promise<ResumeRequestRow | undefined> {
  return db
    .selectFrom('resume_requests')
    .selectAll()
    .where('target', '=', target)
    .where('expires_at', '>', now)
    .where(isSeenBy(team))
    .executeTakeFirst()
}

const listedColumns = [
  'target',
  'instance_id',
  'selector',
  'team',
  'version',
  'agents',
  'requested_by',
  'owner',
  'requested_at',
  'expires_at',
] as const satisfies readonly (keyof ResumeRequestRow)[]

/** A pending request without its members, which may be thousands. */
export type PendingRow = Pick<ResumeRequestRow, (typeof listedColumns)[number]>

/** What a team sees: requests for one of its agents, and those that its operators made for several. */
const isSeenBy = (team: Team) => (e: ExpressionBuilder<Schema, 'resume_requests'>) =>
  e.or([isOfTeam('instance_id', team), e.and([e('instance_id', 'is', null), isWithinTeam('team', team)])])

/** Reads pending requests, newest first. */
export function readRequests(db: Db, now: number, limit: number, team: Team): Promise<PendingRow[]> {
  return db
    .selectFrom('resume_requests')
    .select(listedColumns)
    .where('expires_at', '>', now)
    .where(isSeenBy(team))
    .orderBy('requested_at', 'desc')
    .orderBy('target')
    .limit(limit)
    .execute()
}

/** Reads the ids of the agents of a request of several, in order. */
export async function readMembers(db: Db, target: string): Promise<string[]> {
  const row = await db.selectFrom('resume_requests').select('members').where('target', '=', target).executeTakeFirst()
  return JSON.parse(row?.members ?? '[]')
}

/** Stores a request, replacing an expired one of the same target; a newer one fails the batch. */
export function requestStatements({ db }: Database, row: ResumeRequestRow, replaced: number | null): Statement[] {
  const remove = db.deleteFrom('resume_requests').where('target', '=', row.target)
  return [
    remove
      .where((e) => e.or([e('expires_at', '<=', row.requested_at), e('requested_at', '=', replaced ?? -1)]))
      .compile(),
    db.insertInto('resume_requests').values(row).compile(),
  ]
}

/** Consumes a request as read, in a batch that fails as stale if another one consumed it. */
export function takeStatements({ db, dialect }: Database, { target, requested_at }: ResumeRequestRow): Statement[] {
  const asRead = db
    .selectFrom('resume_requests')
    .select('target')
    .where('target', '=', target)
    .where('requested_at', '=', requested_at)
  return [dialect.lockFound(asRead.compile()), db.deleteFrom('resume_requests').where('target', '=', target).compile()]
}

export async function deleteExpired(db: Db, now: number): Promise<void> {
  await db.deleteFrom('resume_requests').where('expires_at', '<=', now).execute()
}
