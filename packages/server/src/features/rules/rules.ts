import { type RuleDocument, type RuleList, type RuleMode, type RuleStored, ruleLimits } from '@wardline/contract'
import { hourMs, isoTime, isoTimeOrNull } from '../../clock.ts'
import type { Database, Db, Trx } from '../../db/database.ts'
import type { Team } from '../../db/teams.ts'
import { AppError, unknownId } from '../../errors.ts'
import { uuidV7 } from '../../ids.ts'
import { type Action, type Actor, recordAction } from '../audit/audit.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import { keyNames } from '../keys/key-names.ts'
import { countFirings, recentHours } from './firings.ts'
import { costFault } from './language/cost.ts'
import { anyLists } from './language/placeholders.ts'
import { readListsOf, readListVersions, type StoredLists } from './list-queries.ts'
import {
  countRules,
  findRule,
  findVersion,
  insertRule,
  type RuleRow,
  readLastVersion,
  readOtherCosts,
  readRules,
  readRunnerProgress,
  readVersions,
  removeRule,
  updateRule,
} from './queries.ts'
import {
  assertTested,
  documentProblem,
  type GivenRule,
  type ReadRule,
  readRule,
  runningText,
  textOf,
} from './rule-text.ts'

/** Actor and time of a change of a rule. */
export interface Changing {
  database: Database
  protection: ProtectionAlerts
  actor: Actor
  now: number
  /** Asserts that a person confirmed a moment ago that it is them. Absent: no person makes the change. */
  assertFresh?: () => void
  /** Whether no process reads rule files, so that rules of files may be changed. */
  hasNoFiles?: boolean
}

export const unknownRule = (id: string) => unknownId('rule', id, 'wardline rules list')

export const stateOf = ({ title, mode, version, severity, file }: RuleRow) => ({
  title,
  mode,
  version,
  severity,
  ...(file === null ? {} : { file }),
})

const actionsOf = ({ response = [] }: RuleDocument): string => JSON.stringify(response.map(({ action }) => action))

/** What is stored of a document beside its text, so that neither a list nor a start reads the text. */
export const columnsOf = (document: RuleDocument) => ({
  title: document.title,
  severity: document.severity,
  responses: actionsOf(document),
  tags: JSON.stringify(document.tags ?? []),
  document: runningText(document),
})

/** Returns the document of a stored rule; undefined if its grammar is no longer valid. */
function documentOf(text: string): RuleDocument | undefined {
  try {
    return readRule(text, anyLists).rule.document
  } catch {
    return undefined
  }
}

/** Returns the top-level fields in which two documents differ. */
export function changedFields<Fields extends object>(before: Fields | undefined, after: Fields): string[] {
  const names = new Set([...Object.keys(before ?? {}), ...Object.keys(after)]) as Set<keyof Fields & string>
  return [...names].filter((name) => JSON.stringify(before?.[name]) !== JSON.stringify(after[name]))
}

const storedOf = ({ id, version, mode }: RuleRow): RuleStored => ({ id, version, mode })

/** Parses the rule of a request. */
export const givenRule = (body: RuleDocument | { rule: GivenRule }): GivenRule =>
  'rule' in body && !('detection' in body) ? body.rule : (body as RuleDocument)

/**
 * Writes the audit entry before the change: its lock serializes changes of rules, so that limits are exact. `first` takes
 * the locks that come before that one.
 */
export function change<Result>(
  { database, protection, actor, now, assertFresh }: Omit<Changing, 'hasNoFiles'>,
  action: Action,
  work: (trx: Trx) => Promise<Result>,
  first: (trx: Trx) => Promise<void> = async () => {},
): Promise<Result> {
  // What enforces, before or after, decides for people.
  if ([action.before, action.after].some((state) => (state as { mode?: unknown } | null)?.mode === 'enforce'))
    assertFresh?.()
  return database.db.transaction().execute(async (trx) => {
    await first(trx)
    for (const statement of protection.statements(actor, action, now)) await trx.executeQuery(statement)
    await recordAction(database, trx, actor, action, now)
    return work(trx)
  })
}

/** Throws AppError `conflict` for a rule of a file, which would overwrite the change. */
function assertNoFile({ file }: RuleRow, { hasNoFiles = false }: Changing): void {
  if (file === null || hasNoFiles) return
  throw new AppError('conflict', `The rule is read from the file ${file}: change it there.`)
}

/**
 * Throws AppError `invalid` if all rules together would cost an event too much. A rule that costs no more than `before` is
 * stored in any case.
 */
async function assertCost(db: Db, { id, cost }: RuleRow, before?: RuleRow): Promise<void> {
  if (cost === null || cost <= (before?.cost ?? 0)) return
  const sentence = costFault(cost, await readOtherCosts(db, id))
  if (sentence !== undefined) throw new AppError('invalid', sentence)
}

/** Parses a rule with the lists that it names. Throws AppError `invalid`. */
export async function readWithLists(db: Db, given: GivenRule): Promise<ReadRule & { lists: StoredLists }> {
  const lists = await readListsOf(db, [textOf(given)])
  return { ...readRule(given, lists), lists }
}

/** Throws AppError `conflict` if a list that the rule names was changed since the rule was compiled. */
async function assertSameLists(trx: Trx, { rule, lists }: Awaited<ReturnType<typeof readWithLists>>): Promise<void> {
  const names = [...rule.lists.keys()]
  if (names.length === 0) return
  const now = await readListVersions(trx, names)
  const changed = names.find((name) => now.get(name) !== lists.versions.get(name))
  if (changed !== undefined) throw new AppError('conflict', `The list ${changed} was changed meanwhile: try again.`)
}

/** Throws AppError `invalid`, or `conflict` if the id exists. */
export async function createRule(changing: Changing, given: GivenRule): Promise<RuleStored> {
  const { database, actor, now } = changing
  const read = await readWithLists(database.db, given)
  const { document } = read.rule
  const mode = document.mode ?? 'observe'
  assertTested(read, mode)
  const id = document.id ?? uuidV7(now)
  const row: RuleRow = {
    id,
    ...columnsOf(document),
    mode,
    // A rule that is created again continues the version numbers, because firings refer to versions.
    version: (await readLastVersion(database.db, id)) + 1,
    text: read.text,
    format: read.format,
    file: null,
    cost: read.rule.cost,
    list_changes: 0,
    created_at: now,
    changed_at: now,
    changed_by: actor.keyId,
  }
  await change(changing, { action: 'rule.create', target: id, before: null, after: stateOf(row) }, async (trx) => {
    if ((await countRules(trx)) >= ruleLimits.rules) {
      throw new AppError('invalid', `There are ${ruleLimits.rules} rules, the maximum: delete one first.`)
    }
    if (await findRule(trx, id)) throw new AppError('conflict', `A rule with id ${id} exists: replace it.`)
    await assertSameLists(trx, read)
    await assertCost(trx, row)
    await insertRule(trx, row)
  })
  return storedOf(row)
}

function assertSameId({ rule, fault }: ReadRule, id: string): void {
  const { id: named } = rule.document
  if (named === undefined || named === id) return
  throw documentProblem([fault(['id'], `id is ${named}, but the rule that is replaced has ${id}.`)])
}

async function findOwn(changing: Changing, id: string): Promise<RuleRow> {
  const row = await findRule(changing.database.db, id)
  if (!row) throw unknownRule(id)
  assertNoFile(row, changing)
  return row
}

/** Throws AppError `conflict` if the rule was changed since it was read, `not_found` if it was deleted. */
async function assertUnchanged(trx: Trx, { id, version, mode }: RuleRow): Promise<void> {
  const now = await findRule(trx, id)
  if (!now) throw unknownRule(id)
  if (now.version === version && now.mode === mode) return
  throw new AppError('conflict', 'The rule was changed meanwhile: read it again.')
}

/** Throws AppError `not_found`, `invalid` or `conflict`. */
export async function replaceRule(changing: Changing, id: string, given: GivenRule): Promise<RuleStored> {
  const { actor, now } = changing
  const old = await findOwn(changing, id)
  const read = await readWithLists(changing.database.db, given)
  assertSameId(read, id)
  const { document } = read.rule
  const { mode = old.mode } = document
  assertTested(read, mode)
  const isNewVersion = read.text !== old.text
  const { text, format } = read
  const version = isNewVersion ? old.version + 1 : old.version
  const row: RuleRow = {
    ...old,
    ...columnsOf(document),
    file: null,
    mode,
    version,
    text,
    format,
    cost: read.rule.cost,
    changed_at: now,
    changed_by: actor.keyId,
  }
  const after = { ...stateOf(row), changed: changedFields(documentOf(old.text), document) }
  const action = { action: 'rule.change', target: id, before: stateOf(old), after }
  await change(changing, action, async (trx) => {
    await assertUnchanged(trx, old)
    await assertSameLists(trx, read)
    await assertCost(trx, row, old)
    await updateRule(trx, row, isNewVersion)
  })
  return storedOf(row)
}

/** Throws AppError `not_found`, `invalid` or `conflict`. */
export async function setRuleMode(changing: Changing, id: string, mode: RuleMode): Promise<RuleStored> {
  const { actor, now } = changing
  const old = await findOwn(changing, id)
  assertTested(await readWithLists(changing.database.db, old.text), mode)
  const row: RuleRow = { ...old, mode, changed_at: now, changed_by: actor.keyId }
  const action = { action: 'rule.mode', target: id, before: stateOf(old), after: stateOf(row) }
  await change(changing, action, async (trx) => {
    await assertUnchanged(trx, old)
    await updateRule(trx, row, false)
  })
  return storedOf(row)
}

/**
 * Stores the rule of a file, where it is another than before. Throws AppError `conflict` where another rule has its id,
 * or `invalid` beyond the bound.
 */
export async function storeFileRule(
  changing: Changing,
  {
    id,
    file,
    mode,
    read,
  }: { id: string; file: string; mode: RuleMode; read: Awaited<ReturnType<typeof readWithLists>> },
): Promise<void> {
  const { database, now } = changing
  const { document } = read.rule
  const old = await findRule(database.db, id)
  if (old && old.file === null) {
    throw new AppError('conflict', `A rule with id ${id} was stored over the interface: delete it, or change the id.`)
  }
  if (old?.text === read.text && old.mode === mode && old.file === file) return
  const isNewVersion = old?.text !== read.text
  const version = old && !isNewVersion ? old.version : (await readLastVersion(database.db, id)) + 1
  const { text, format } = read
  const created_at = old?.created_at ?? now
  const { cost } = read.rule
  const columns = { ...columnsOf(document), mode, version, text, format, file, cost, list_changes: 0 }
  const row: RuleRow = { id, ...columns, created_at, changed_at: now, changed_by: null }
  // A refused file is retried every other second: without a transaction.
  await assertCost(database.db, row, old)
  const action = { action: old ? 'rule.change' : 'rule.create', target: id, before: old ? stateOf(old) : null }
  await change(changing, { ...action, after: stateOf(row) }, async (trx) => {
    await assertSameLists(trx, read)
    await assertCost(trx, row, old)
    if (old) return updateRule(trx, row, isNewVersion)
    if ((await countRules(trx)) >= ruleLimits.rules) {
      throw new AppError('invalid', `There are ${ruleLimits.rules} rules, the maximum: delete one first.`)
    }
    await insertRule(trx, row)
  })
}

/** Deletes a rule whose file was removed. */
export async function deleteFileRule(changing: Changing, row: RuleRow): Promise<void> {
  const action = { action: 'rule.delete', target: row.id, before: stateOf(row), after: null }
  await change(changing, action, (trx) => removeRule(trx, row.id))
}

/** Throws AppError `not_found` or `conflict`. */
export async function deleteRule(changing: Changing, id: string): Promise<void> {
  const old = await findOwn(changing, id)
  const action = { action: 'rule.delete', target: id, before: stateOf(old), after: null }
  await change(changing, action, async (trx) => {
    await assertUnchanged(trx, old)
    await removeRule(trx, id)
  })
}

async function summaries(db: Db, rows: readonly RuleRow[], asked: { now: number; team: Team }) {
  const ids = rows.map(({ id }) => id)
  const [{ first, counted, counts, last }, names] = await Promise.all([
    countFirings(db, ids, asked),
    keyNames.names(
      db,
      rows.flatMap(({ changed_by }) => changed_by ?? []),
    ),
  ])
  return rows.map((row) => {
    const hours = Array.from<number>({ length: recentHours }).fill(0)
    let suppressed = 0
    for (const each of counted) {
      if (each.rule_id !== row.id) continue
      hours[(each.hour - first) / hourMs] = Number(each.count)
      suppressed += Number(each.suppressed)
    }
    return {
      id: row.id,
      title: row.title,
      severity: row.severity,
      mode: row.mode,
      version: row.version,
      file: row.file,
      responses: JSON.parse(row.responses) as string[],
      tags: JSON.parse(row.tags) as string[],
      created_at: isoTime(row.created_at),
      changed_at: isoTime(row.changed_at),
      changed_by: row.changed_by === null ? null : (names.get(row.changed_by) ?? row.changed_by),
      firings_24h: hours.reduce((sum, count) => sum + count, 0),
      firings_7d: counts.get(row.id) ?? 0,
      suppressed_24h: suppressed,
      recent_hours: hours,
      last_fired_at: isoTimeOrNull(last.get(row.id) ?? null),
    }
  })
}

export async function listRules(db: Db, asked: { now: number; team: Team }): Promise<Omit<RuleList, 'file_faults'>> {
  const { seq, newest } = await readRunnerProgress(db)
  return {
    rules: await summaries(db, await readRules(db), asked),
    runner: { seq, lag_events: Math.max(0, newest - seq) },
  }
}

/** Throws AppError `not_found`. */
export async function viewRule(db: Db, id: string, given: { version?: string }, asked: { now: number; team: Team }) {
  const row = await findRule(db, id)
  if (!row) throw unknownRule(id)
  const version = given.version === undefined ? row.version : Number(given.version)
  const stored = await findVersion(db, id, version)
  if (!stored) throw new AppError('not_found', `The rule has no version ${version}; the newest is ${row.version}.`)
  const [[summary], versions] = await Promise.all([
    summaries(db, [row], asked),
    readVersions(db, id, ruleLimits.listedVersions),
  ])
  const names = await keyNames.names(
    db,
    versions.flatMap(({ created_by }) => created_by ?? []),
  )
  const { document, lists } = readRule(stored.text, anyLists).rule
  return {
    ...summary!,
    version,
    document: version === row.version ? { ...document, mode: row.mode } : document,
    text: stored.text,
    format: stored.format,
    lists: [...lists.keys()],
    versions: versions.map(({ version: number, created_at, created_by }) => ({
      version: number,
      created_at: isoTime(created_at),
      created_by: created_by === null ? null : (names.get(created_by) ?? created_by),
    })),
  }
}
