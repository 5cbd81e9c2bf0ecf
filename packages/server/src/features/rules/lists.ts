import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  type AllLists,
  type EntriesBody,
  type ListBody,
  type ListStored,
  type ListView,
  listLimits,
} from '@wardline/contract'
import { counted } from '@wardline/text'
import { isoTime } from '../../clock.ts'
import type { Db, Trx } from '../../db/database.ts'
import { AppError } from '../../errors.ts'
import { keyNames } from '../keys/key-names.ts'
import { costFault } from './language/cost.ts'
import { listsIn } from './language/placeholders.ts'
import { compileStored } from './language/rule.ts'
import {
  countLists,
  findList,
  type ListRow,
  noteListChange,
  readExpandingRules,
  readListRows,
  readListsOf,
  removeList,
  storeList,
} from './list-queries.ts'
import { readOtherCosts } from './queries.ts'
import { type Changing, change } from './rules.ts'

/** A rule that uses a list. */
type User = Awaited<ReturnType<typeof readExpandingRules>>[number]

const usedBy = ({ document }: User): string[] => listsIn(JSON.parse(document ?? '{}').detection)

async function readUsers(db: Db, name: string): Promise<User[]> {
  return (await readExpandingRules(db)).filter((rule) => usedBy(rule).includes(name))
}

const unknownList = (name: string) =>
  new AppError('not_found', `There is no list ${name}: \`wardline lists create ${name}\` creates it.`)

const plain = ({ id, title }: User) => ({ id, title })

async function summaryOf(db: Db, row: Awaited<ReturnType<typeof readListRows>>[number], users: readonly User[]) {
  const { name, description, count, version, changed_at, changed_by } = row
  const names = await keyNames.names(db, changed_by === null ? [] : [changed_by])
  return {
    name,
    description,
    count: Number(count),
    version: Number(version),
    rules: users.map(plain),
    changed_at: isoTime(changed_at),
    changed_by: changed_by === null ? null : (names.get(changed_by) ?? changed_by),
  }
}

export async function listLists(db: Db): Promise<AllLists> {
  const rules = (await readExpandingRules(db)).map((rule) => ({ rule, names: usedBy(rule) }))
  const lists = []
  for (const row of await readListRows(db)) {
    const users = rules.filter(({ names }) => names.includes(row.name)).map(({ rule }) => rule)
    lists.push(await summaryOf(db, row, users))
  }
  return { lists }
}

/** Throws AppError `not_found`. */
export async function viewList(db: Db, name: string): Promise<ListView> {
  const row = await findList(db, name)
  if (!row) throw unknownList(name)
  return { ...(await summaryOf(db, row, await readUsers(db, name))), entries: JSON.parse(row.entries) }
}

/**
 * Compiles the rules that use a list with other entries of it; returns the cost of each. Throws AppError `invalid` with
 * the name of a rule that could not run.
 */
async function costsWith(db: Db, users: readonly User[], name: string, entries: readonly string[]) {
  const lists = await readListsOf(
    db,
    users.map(({ document }) => document!),
  )
  const costs = new Map<string, number>()
  for (const { id, title, document } of users) {
    try {
      const { cost } = compileStored(JSON.parse(document!), {
        get: (each) => (each === name ? entries : lists.get(each)),
      })
      costs.set(id, cost)
    } catch (fault) {
      throw new AppError(
        'invalid',
        `The rule ${title} uses the list and could not run with it: ${(fault as Error).message}`,
      )
    }
    // A rule takes up to a quarter of a second at worst.
    await nextTurn()
  }
  return costs
}

const sum = (numbers: Iterable<number>): number => [...numbers].reduce((total, each) => total + each, 0)

/** Throws AppError `invalid` if all rules together would cost an event too much, and more than before. */
async function assertCost(trx: Trx, users: readonly User[], costs: ReadonlyMap<string, number>): Promise<void> {
  const before = sum(users.map(({ cost }) => Number(cost ?? 0)))
  const after = sum(costs.values())
  if (after <= before) return
  const others = (await readOtherCosts(trx, '')) - before
  const sentence = costFault(after, others, 'The rules that use the list would cost')
  if (sentence !== undefined) throw new AppError('invalid', sentence)
}

const versionsOf = (users: readonly User[]): string => JSON.stringify(users.map(({ id, version }) => [id, version]))

const isActive = ({ mode }: User): boolean => mode !== 'observe'

const stateOf = (row: Pick<ListRow, 'version' | 'description' | 'count'>) => ({
  version: Number(row.version),
  description: row.description,
  entries: Number(row.count),
})

const changedMeanwhile = (name: string): AppError =>
  new AppError('conflict', `The list ${name} was changed meanwhile: read it again.`)

/** Stores a list in place of `old`, and has the rules that use it compiled again. */
async function replace(
  changing: Changing,
  name: string,
  old: ListRow | undefined,
  next: { description: string; entries: readonly string[] },
): Promise<ListStored> {
  const { database, actor, now } = changing
  const entries = [...new Set(next.entries)]
  const before: string[] = old === undefined ? [] : JSON.parse(old.entries)
  const [kept, known] = [new Set(entries), new Set(before)]
  const changes = {
    added: entries.filter((entry) => !known.has(entry)).length,
    removed: before.filter((entry) => !kept.has(entry)).length,
  }
  const text = JSON.stringify(entries)
  if (old !== undefined && old.entries === text && old.description === next.description) {
    return { name, version: Number(old.version), count: entries.length, ...changes }
  }
  if (entries.length > listLimits.entries) {
    throw new AppError(
      'invalid',
      `A list has at most ${listLimits.entries} entries; this one would have ${entries.length}.`,
    )
  }
  const users = await readUsers(database.db, name)
  const isSame = changes.added + changes.removed === 0
  const costs = isSame ? undefined : await costsWith(database.db, users, name, entries)
  const row: ListRow = {
    name,
    description: next.description,
    entries: text,
    count: entries.length,
    version: Number(old?.version ?? 0) + 1,
    created_at: old?.created_at ?? now,
    changed_at: now,
    changed_by: actor.keyId,
  }
  const active = users.filter(isActive).length
  const action = {
    action: old ? 'list.change' : 'list.create',
    target: name,
    before: old ? stateOf(old) : null,
    after: { ...stateOf(row), ...changes, ...(active > 0 && { active_rules: active }) },
  }
  await change(changing, action, async (trx) => {
    const current = await findList(trx, name)
    if (current?.version !== old?.version || current?.created_at !== old?.created_at) throw changedMeanwhile(name)
    if (old === undefined && (await countLists(trx)) >= listLimits.lists) {
      throw new AppError('invalid', `There are ${listLimits.lists} lists, the maximum: delete one first.`)
    }
    await storeList(trx, row)
    if (costs === undefined) return
    // What was compiled above is what will run.
    if (versionsOf(await readUsers(trx, name)) !== versionsOf(users)) {
      throw new AppError('conflict', `A rule that uses the list ${name} was changed meanwhile: try again.`)
    }
    await assertCost(trx, users, costs)
    for (const [id, cost] of costs) await noteListChange(trx, { id, cost })
  })
  return { name, version: row.version, count: entries.length, ...changes }
}

/** Creates or replaces a list. Throws AppError `not_found`, `invalid` or `conflict`. */
export async function putList(
  changing: Changing,
  name: string,
  { description, entries, version }: ListBody,
): Promise<ListStored> {
  const old = await findList(changing.database.db, name)
  if (old === undefined && version > 0) throw unknownList(name)
  if (old !== undefined && Number(old.version) !== version) {
    throw new AppError(
      'conflict',
      version === 0
        ? `A list ${name} exists: send its version, ${old.version}, to replace it.`
        : `The list ${name} has version ${old.version}, not ${version}: it was changed meanwhile, read it again.`,
    )
  }
  return replace(changing, name, old, { description: description ?? old?.description ?? '', entries })
}

/** Attempts of a change that others get ahead of: people and scripts change a list now and then. */
const attempts = 5

/** Adds and removes entries, whatever others change at the same time. Throws AppError `not_found`, `invalid` or `conflict`. */
export async function changeEntries(
  changing: Changing,
  name: string,
  { add = [], remove = [] }: EntriesBody,
): Promise<ListStored> {
  const removed = new Set(remove)
  const twice = add.find((entry) => removed.has(entry))
  if (twice !== undefined)
    throw new AppError('invalid', `The entry ${twice} is in add and in remove: leave it out of one.`)
  for (let attempt = 1; ; attempt += 1) {
    const old = await findList(changing.database.db, name)
    if (!old) throw unknownList(name)
    const left = (JSON.parse(old.entries) as string[]).filter((entry) => !removed.has(entry))
    try {
      return await replace(changing, name, old, { description: old.description, entries: [...left, ...add] })
    } catch (fault) {
      if (!(fault instanceof AppError && fault.code === 'conflict') || attempt === attempts) throw fault
    }
  }
}

/** Rules that a refusal names; others are counted. */
const namedRules = 5

/** Throws AppError `not_found`, or `conflict` if rules use the list. */
export async function deleteList(changing: Changing, name: string): Promise<void> {
  const old = await findList(changing.database.db, name)
  if (!old) throw unknownList(name)
  const action = { action: 'list.delete', target: name, before: stateOf(old), after: null }
  await change(changing, action, async (trx) => {
    const users = await readUsers(trx, name)
    if (users.length > 0) {
      const titles = users.slice(0, namedRules).map(({ title }) => title)
      const more = users.length > namedRules ? ` and ${users.length - namedRules} more` : ''
      throw new AppError(
        'conflict',
        `${counted(users.length, 'rule')} use the list ${name}: ${titles.join(', ')}${more}. Change or delete them first.`.replace(
          /^1 rule use /,
          '1 rule uses ',
        ),
      )
    }
    if ((await findList(trx, name))?.version !== old.version) throw changedMeanwhile(name)
    await removeList(trx, name)
  })
}
