import { peopleLimits } from '@wardline/contract'
import { dayMs } from '../../clock.ts'
import type { Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

/** Prefix of the ids of people. Ids of keys contain no hyphen after 8 characters; see keys/key-format.ts. */
export const personPrefix = 'person-'
export const isPersonId = (id: string): boolean => id.startsWith(personPrefix)

/** Reads the teams to which these people are limited, as stored. */
export function readTeams(db: Db, ids: readonly string[]) {
  if (ids.length === 0) return Promise.resolve([])
  return db.selectFrom('people').select(['id', 'team']).where('id', 'in', ids).execute()
}

export function readPersonNames(db: Db, ids: readonly string[]): Promise<{ id: string; name: string }[]> {
  return db.selectFrom('people').select(['id', 'name']).where('id', 'in', ids).execute()
}

/** Returns the ids of all people with this name or mail address. */
export async function readPersonIds(db: Db, given: string): Promise<string[]> {
  const rows = await db
    .selectFrom('people')
    .select('id')
    .where((e) => e.or([e('name', '=', given), e('email', '=', given)]))
    .execute()
  return rows.map(({ id }) => id)
}

/** Returns the people whose role lets them operate, all or of these ids, by name. */
export function readOperatorPeople(
  db: Db,
  limit: number,
  ids?: readonly string[],
): Promise<{ id: string; name: string }[]> {
  const query = db.selectFrom('people').select(['id', 'name']).where('role', 'in', ['operator', 'admin'])
  const chosen = ids === undefined ? query : query.where('id', 'in', ids)
  return chosen.orderBy('name').orderBy('id').limit(limit).execute()
}

export type PersonRow = Schema['people']

export function findPerson(db: Db, id: string): Promise<PersonRow | undefined> {
  return db.selectFrom('people').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Columns of a list: groups may be 250 kB a person. */
const listed = [
  'id',
  'issuer',
  'subject',
  'name',
  'email',
  'role',
  'role_by',
  'team',
  'first_seen_at',
  'signed_in_at',
  'evaluated_at',
] as const
export type ListedPerson = Pick<PersonRow, (typeof listed)[number]>

/** Returns people, those with a role and who signed in last first. */
export function readPeople(db: Db): Promise<ListedPerson[]> {
  return db
    .selectFrom('people')
    .select(listed)
    .orderBy((e) => e.case().when('role', 'is', null).then(1).else(0).end())
    .orderBy('signed_in_at', 'desc')
    .orderBy('id')
    .limit(peopleLimits.listed)
    .execute()
}

/** Stores a person, or what the provider now says of them, unless it said something later. */
export function personStatement(db: Db, row: PersonRow): Statement {
  const { id: _id, issuer: _issuer, subject: _subject, first_seen_at: _first, ended_at: _ended, ...columns } = row
  return db
    .insertInto('people')
    .values(row)
    .onConflict((conflict) =>
      conflict.column('id').doUpdateSet(columns).where('people.evaluated_at', '<=', columns.evaluated_at),
    )
    .compile()
}

/** Notes that an admin ended the sessions of a person: until they sign in again, they get no mail. */
export const endedStatement = (db: Db, id: string, now: number): Statement =>
  db.updateTable('people').set({ ended_at: now }).where('id', '=', id).compile()

/** Time for which a sign-in proves that it works. */
const provesMs = 30 * dayMs

/** Whether a person with role admin has signed in lately. */
export async function hasAdmin(db: Db, issuer: string, now: number): Promise<boolean> {
  const found = await db
    .selectFrom('people')
    .select('id')
    .where('role', '=', 'admin')
    .where('issuer', '=', issuer)
    .where('signed_in_at', '>', now - provesMs)
    .limit(1)
    .executeTakeFirst()
  return found !== undefined
}

/** Forgets people without a role of whom the provider has said nothing since. */
export async function deletePeopleBefore(db: Db, cutoff: number): Promise<void> {
  await db.deleteFrom('people').where('role', 'is', null).where('evaluated_at', '<', cutoff).execute()
  await db
    .deleteFrom('mail_choices')
    .where('person_id', 'not in', (e) => e.selectFrom('people').select('id'))
    .execute()
}
