import { peopleLimits } from '@wardline/contract'
import type { Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

/** Prefix of the ids of people. Ids of keys contain no hyphen after 8 characters; see keys/key-format.ts. */
export const personPrefix = 'person-'
export const isPersonId = (id: string): boolean => id.startsWith(personPrefix)

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

export type PersonRow = Schema['people']

export function findPerson(db: Db, id: string): Promise<PersonRow | undefined> {
  return db.selectFrom('people').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Returns people, those who signed in last first. */
export function readPeople(db: Db): Promise<PersonRow[]> {
  return db
    .selectFrom('people')
    .selectAll()
    .orderBy('signed_in_at', 'desc')
    .orderBy('id')
    .limit(peopleLimits.listed)
    .execute()
}

/** Stores a person, or what the provider now says of them. */
export function personStatement(db: Db, row: PersonRow): Statement {
  const { id: _id, issuer: _issuer, subject: _subject, first_seen_at: _first, ...columns } = row
  return db
    .insertInto('people')
    .values(row)
    .onConflict((conflict) => conflict.column('id').doUpdateSet(columns))
    .compile()
}

/** Whether a person with role admin has signed in. */
export async function hasAdmin(db: Db, issuer: string): Promise<boolean> {
  const found = await db
    .selectFrom('people')
    .select('id')
    .where('role', '=', 'admin')
    .where('issuer', '=', issuer)
    .limit(1)
    .executeTakeFirst()
  return found !== undefined
}
