import type { Db, Trx } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import { noLists, type RuleLists } from './language/placeholders.ts'

export type ListRow = Schema['rule_lists']

/** Columns that describe a list, without its entries. */
export function readListRows(db: Db) {
  return db
    .selectFrom('rule_lists')
    .select(['name', 'description', 'count', 'version', 'changed_at', 'changed_by'])
    .orderBy('name')
    .execute()
}

export function findList(db: Db, name: string): Promise<ListRow | undefined> {
  return db.selectFrom('rule_lists').selectAll().where('name', '=', name).executeTakeFirst()
}

export async function countLists(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('rule_lists')
    .select((e) => e.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}

export async function storeList(trx: Trx, row: ListRow): Promise<void> {
  const { name: _name, created_at: _createdAt, ...columns } = row
  await trx
    .insertInto('rule_lists')
    .values(row)
    .onConflict((conflict) => conflict.column('name').doUpdateSet(columns))
    .execute()
}

export async function removeList(trx: Trx, name: string): Promise<void> {
  await trx.deleteFrom('rule_lists').where('name', '=', name).execute()
}

/** Versions of lists by name; a list that does not exist is missing. */
export async function readListVersions(db: Db, names: readonly string[]): Promise<Map<string, number>> {
  const rows = await db.selectFrom('rule_lists').select(['name', 'version']).where('name', 'in', names).execute()
  return new Map(rows.map(({ name, version }) => [name, Number(version)]))
}

/** Lists that texts of rules may name, as they are stored. */
export interface StoredLists extends RuleLists {
  versions: ReadonlyMap<string, number>
}

const none: StoredLists = { get: (name) => noLists.get(name), versions: new Map() }

/** Reads the lists whose names are in one of the texts. A text without `expand` costs no query. */
export async function readListsOf(db: Db, texts: readonly string[]): Promise<StoredLists> {
  const using = texts.filter((text) => text.includes('expand')).map((text) => text.toLowerCase())
  if (using.length === 0) return none
  const known = await db.selectFrom('rule_lists').select('name').execute()
  const named = known.map(({ name }) => name).filter((name) => using.some((text) => text.includes(name)))
  if (named.length === 0) return none
  const rows = await db
    .selectFrom('rule_lists')
    .select(['name', 'entries', 'version'])
    .where('name', 'in', named)
    .execute()
  const entries = new Map(rows.map((row) => [row.name, JSON.parse(row.entries) as string[]]))
  return {
    get: (name) => entries.get(name),
    versions: new Map(rows.map(({ name, version }) => [name, Number(version)])),
  }
}

/** Rules whose documents may use a list. */
export function readExpandingRules(db: Db) {
  return db
    .selectFrom('rules')
    .select(['id', 'title', 'mode', 'version', 'document', 'cost'])
    .where('document', 'like', '%|expand%')
    .orderBy('title')
    .orderBy('id')
    .execute()
}

/** Has a rule compiled again by the process that runs it. */
export async function noteListChange(trx: Trx, { id, cost }: { id: string; cost: number }): Promise<void> {
  await trx
    .updateTable('rules')
    .set((e) => ({ list_changes: e('list_changes', '+', 1), cost }))
    .where('id', '=', id)
    .execute()
}
