import { setImmediate as nextTurn } from 'node:timers/promises'
import { type PackModeSet, packPrefix, type RuleMode } from '@wardline/contract'
import type { Db } from '../../db/database.ts'
import { AppError } from '../../errors.ts'
import { auditManyStatements } from '../audit/audit.ts'
import { type RuleRow, readRuleStates, readRules, updateModes } from './queries.ts'
import { assertTested } from './rule-text.ts'
import { type Changing, readWithLists, stateOf } from './rules.ts'

/** A rule as its mode changes. */
interface ModeChange {
  old: RuleRow
  action: { action: 'rule.mode'; target: string; before: ReturnType<typeof stateOf>; after: ReturnType<typeof stateOf> }
}

function changeOf(old: RuleRow, mode: RuleMode): ModeChange {
  const action = {
    action: 'rule.mode',
    target: old.id,
    before: stateOf(old),
    after: stateOf({ ...old, mode }),
  } as const
  return { old, action }
}

/** Throws AppError `invalid`, which names the rule, if one has no tests or fails them. */
async function assertAllTested(db: Db, changes: readonly ModeChange[], mode: RuleMode): Promise<void> {
  for (const { old } of changes) {
    try {
      assertTested(await readWithLists(db, old.text), mode)
    } catch (fault) {
      if (!(fault instanceof AppError)) throw fault
      throw new AppError(fault.code, `${old.title} (${old.id}): ${fault.message}`, undefined, fault.details)
    }
    // The tests of a pack may take a second together: requests are answered between the rules.
    await nextTurn()
  }
}

/** Sets the mode of these rules in one transaction, with an audit entry for each. Throws AppError `conflict`. */
async function storeModes(
  { database, protection, actor, now }: Changing,
  changes: readonly ModeChange[],
  mode: RuleMode,
): Promise<void> {
  const ids = changes.map(({ old }) => old.id)
  const actions = changes.map(({ action }) => action)
  await database.db.transaction().execute(async (trx) => {
    for (const action of actions) {
      for (const statement of protection.statements(actor, action, now)) await trx.executeQuery(statement)
    }
    for (const statement of auditManyStatements(database, actor, { action: 'rule.mode' }, actions, now)) {
      await trx.executeQuery(statement)
    }
    const stored = new Map((await readRuleStates(trx, ids)).map((state) => [state.id, state]))
    for (const { old } of changes) {
      const state = stored.get(old.id)
      if (state?.version === old.version && state.mode === old.mode) continue
      throw new AppError('conflict', `The rule ${old.title} (${old.id}) was changed meanwhile: try again.`)
    }
    await updateModes(trx, ids, { mode, changed_at: now, changed_by: actor.keyId })
  })
}

/**
 * Sets the mode of all rules with the tag `pack.<name>`, but not of those that are read from files.
 * Throws AppError `not_found`, `invalid` or `conflict`; then no rule has changed.
 */
export async function setPackMode(
  changing: Changing,
  { pack, mode }: { pack: string; mode: RuleMode },
): Promise<PackModeSet> {
  const { database, hasNoFiles = false } = changing
  const rules = (await readRules(database.db)).filter(({ tags }) => JSON.parse(tags).includes(`${packPrefix}${pack}`))
  if (rules.length === 0) {
    throw new AppError(
      'not_found',
      `No rule has the tag ${packPrefix}${pack}; \`wardline rules packs\` lists the packs.`,
    )
  }
  const others = rules.filter((rule) => rule.mode !== mode)
  const refused = others.flatMap(({ id, title, file }) => (file === null || hasNoFiles ? [] : [{ id, title, file }]))
  const changes = others.filter(({ file }) => file === null || hasNoFiles).map((old) => changeOf(old, mode))
  if (changes.length === 0 && refused.length > 0) {
    const files = refused.slice(0, 3).map(({ file }) => file)
    const more = refused.length > files.length ? ` and ${refused.length - files.length} more` : ''
    throw new AppError('conflict', `The rules are read from the files ${files.join(', ')}${more}: change them there.`)
  }
  await assertAllTested(database.db, changes, mode)
  if (changes.length > 0) await storeModes(changing, changes, mode)
  const changed = changes.map(({ old: { id, title } }) => ({ id, title }))
  return { mode, changed, unchanged: rules.length - others.length, refused }
}
