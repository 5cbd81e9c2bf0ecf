import type { Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import type { PersonRow } from './person-statements.ts'

export type MailChoiceRow = Schema['mail_choices']

/** A person with what they chose. */
export type ChoosingPerson = Omit<PersonRow, 'team' | 'role_by' | 'name'> & Pick<MailChoiceRow, 'assigned' | 'tags'>

export function findMailChoice(db: Db, personId: string): Promise<MailChoiceRow | undefined> {
  return db.selectFrom('mail_choices').selectAll().where('person_id', '=', personId).executeTakeFirst()
}

export const mailChoiceStatement = (db: Db, { person_id, ...choice }: MailChoiceRow): Statement =>
  db
    .insertInto('mail_choices')
    .values({ person_id, ...choice })
    .onConflict((conflict) => conflict.column('person_id').doUpdateSet(choice))
    .compile()

/** People read at once to find whom an alert is mailed to: as many as are listed. */
const maxPeople = 1_000

const choosing = (db: Db) =>
  db
    .selectFrom('mail_choices')
    .innerJoin('people', 'people.id', 'mail_choices.person_id')
    .selectAll('people')
    .select(['mail_choices.assigned', 'mail_choices.tags'])

/** Returns the people with a verified address who chose tags, those who signed in last first. */
export function readChoosingTags(db: Db): Promise<ChoosingPerson[]> {
  return choosing(db)
    .where('mail_choices.tags', '<>', '[]')
    .where('people.mail_address', 'is not', null)
    .orderBy('people.signed_in_at', 'desc')
    .limit(maxPeople)
    .execute()
}

export function findChoosing(db: Db, personId: string): Promise<ChoosingPerson | undefined> {
  return choosing(db).where('people.id', '=', personId).executeTakeFirst()
}
