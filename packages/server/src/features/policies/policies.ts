import {
  type PolicyList,
  type PolicyMode,
  type PolicyStored,
  type PolicySummary,
  type PolicyView,
  storedPolicyLimits,
} from '@wardline/contract'
import { readPolicy } from '@wardline/policy'
import { isoTime } from '../../clock.ts'
import type { Db, Trx } from '../../db/database.ts'
import { AppError, unknownId } from '../../errors.ts'
import { uuidV7 } from '../../ids.ts'
import type { Action } from '../audit/audit.ts'
import { keyNames } from '../keys/key-names.ts'
import { type Changing, change, changedFields } from '../rules/rules.ts'
import type { PolicySets } from './policy-sets.ts'
import { documentOf, type ReadPolicy } from './policy-text.ts'
import {
  findPolicy,
  findVersion,
  measureOthers,
  type PolicyRow,
  raiseSetVersion,
  readLastVersion,
  readPolicies,
  readSetVersion,
  readVersions,
  removePolicy,
  writePolicy,
} from './queries.ts'

interface ChangingPolicy extends Changing {
  policySets: Pick<PolicySets, 'changed'>
}

export const unknownPolicy = (id: string) => unknownId('policy', id, 'wardline policy list')

const stateOf = ({ title, mode, version, file, document }: PolicyRow) => ({
  title,
  mode,
  version,
  ...(file === null ? {} : { file }),
  ...(readPolicy(JSON.parse(document)).policy.enforceFor ? { enforce_for: true } : {}),
})

/** Changes a policy, and with it the version of the sets; the lock on that comes before the one of the audit log. */
async function changeSet(changing: ChangingPolicy, action: Action, work: (trx: Trx) => Promise<void>): Promise<number> {
  const changed = await change(
    changing,
    action,
    async (trx) => {
      await work(trx)
      return readSetVersion(trx)
    },
    (trx) => raiseSetVersion(trx, changing.now),
  )
  changing.policySets.changed(changed)
  return changed
}

/** Throws AppError `invalid` beyond the number of policies, or the size of what agents get. */
async function assertRoom(db: Db, { id, bytes }: PolicyRow, old?: PolicyRow): Promise<void> {
  const others = await measureOthers(db, id)
  if (!old && others.count >= storedPolicyLimits.policies) {
    throw new AppError('invalid', `There are ${storedPolicyLimits.policies} policies, the maximum: delete one first.`)
  }
  if (bytes <= (old?.bytes ?? 0) || others.bytes + bytes <= storedPolicyLimits.setBytes) return
  throw new AppError(
    'invalid',
    `All policies together have ${others.bytes + bytes} bytes with their labels, and the maximum is ${storedPolicyLimits.setBytes}: use fewer packs of labels, or delete a policy.`,
  )
}

/** Throws AppError `conflict` for a policy of a file, which would overwrite the change. */
function assertNoFile({ file }: PolicyRow, { hasNoFiles = false }: Changing): void {
  if (file === null || hasNoFiles) return
  throw new AppError('conflict', `The policy is read from the file ${file}: change it there.`)
}

/** Throws AppError `conflict` if the policy was changed since it was read, `not_found` if it was deleted. */
async function assertUnchanged(trx: Trx, { id, version, mode }: PolicyRow): Promise<void> {
  const now = await findPolicy(trx, id)
  if (!now) throw unknownPolicy(id)
  if (now.version === version && now.mode === mode) return
  throw new AppError('conflict', 'The policy was changed meanwhile: read it again.')
}

const columnsOf = ({ policy, text, format, document }: ReadPolicy) => ({
  title: policy.title,
  text,
  format,
  document,
  bytes: Buffer.byteLength(document),
})

async function insertNew(changing: ChangingPolicy, row: PolicyRow): Promise<PolicyStored> {
  const action = { action: 'policy.create', target: row.id, before: null, after: stateOf(row) }
  const set_version = await changeSet(changing, action, async (trx) => {
    await assertRoom(trx, row)
    await writePolicy(trx, row, true)
  })
  return { id: row.id, version: row.version, mode: row.mode, set_version }
}

async function replace(changing: ChangingPolicy, old: PolicyRow, row: PolicyRow): Promise<PolicyStored> {
  const { id, version, mode } = row
  const isNewVersion = version !== old.version
  if (!isNewVersion && mode === old.mode && row.file === old.file) {
    return { id, version, mode, set_version: await readSetVersion(changing.database.db) }
  }
  const changed = changedFields(documentOf(old.text), documentOf(row.text))
  const action = { action: 'policy.change', target: id, before: stateOf(old), after: { ...stateOf(row), changed } }
  const set_version = await changeSet(changing, action, async (trx) => {
    await assertUnchanged(trx, old)
    await assertRoom(trx, row, old)
    await writePolicy(trx, row, isNewVersion)
  })
  return { id, version, mode, set_version }
}

/** Throws AppError `invalid`. */
export function createPolicy(changing: ChangingPolicy, read: ReadPolicy): Promise<PolicyStored> {
  const { actor, now } = changing
  return insertNew(changing, {
    id: uuidV7(now),
    ...columnsOf(read),
    mode: read.mode ?? 'observe',
    version: 1,
    file: null,
    created_at: now,
    changed_at: now,
    changed_by: actor.keyId,
  })
}

async function findOwn(changing: ChangingPolicy, id: string): Promise<PolicyRow> {
  const row = await findPolicy(changing.database.db, id)
  if (!row) throw unknownPolicy(id)
  assertNoFile(row, changing)
  return row
}

/** Throws AppError `not_found`, `invalid` or `conflict`. */
export async function replacePolicy(changing: ChangingPolicy, id: string, read: ReadPolicy): Promise<PolicyStored> {
  const { actor, now } = changing
  const old = await findOwn(changing, id)
  return replace(changing, old, {
    ...old,
    ...columnsOf(read),
    mode: read.mode ?? old.mode,
    version: read.text === old.text ? old.version : old.version + 1,
    file: null,
    changed_at: now,
    changed_by: actor.keyId,
  })
}

/** Throws AppError `not_found` or `conflict`. */
export async function setPolicyMode(changing: ChangingPolicy, id: string, mode: PolicyMode): Promise<PolicyStored> {
  const { actor, now } = changing
  const old = await findOwn(changing, id)
  const { version } = old
  if (old.mode === mode) return { id, version, mode, set_version: await readSetVersion(changing.database.db) }
  const row: PolicyRow = { ...old, mode, changed_at: now, changed_by: actor.keyId }
  const action = { action: 'policy.mode', target: id, before: stateOf(old), after: stateOf(row) }
  const set_version = await changeSet(changing, action, async (trx) => {
    await assertUnchanged(trx, old)
    await writePolicy(trx, row, false)
  })
  return { id, version, mode, set_version }
}

/**
 * Stores the policy of a file, where it is another than before. Throws AppError `conflict` where another policy has its id,
 * or `invalid` beyond the bounds.
 */
export async function storeFilePolicy(
  changing: ChangingPolicy,
  { id, file, mode, read }: { id: string; file: string; mode: PolicyMode; read: ReadPolicy },
): Promise<void> {
  const { database, now } = changing
  const old = await findPolicy(database.db, id)
  const isSame = old?.text === read.text
  const version = isSame ? old.version : (await readLastVersion(database.db, id)) + 1
  const created_at = old?.created_at ?? now
  const row = { id, ...columnsOf(read), mode, version, file, created_at, changed_at: now, changed_by: null }
  // A refused file is retried every other second: without a transaction.
  await assertRoom(database.db, row, old)
  await (old ? replace(changing, old, row) : insertNew(changing, row))
}

async function remove(changing: ChangingPolicy, old: PolicyRow): Promise<void> {
  const action = { action: 'policy.delete', target: old.id, before: stateOf(old), after: null }
  await changeSet(changing, action, async (trx) => {
    await assertUnchanged(trx, old)
    await removePolicy(trx, old.id)
  })
}

/** Throws AppError `not_found` or `conflict`. */
export const deletePolicy = async (changing: ChangingPolicy, id: string): Promise<void> =>
  remove(changing, await findOwn(changing, id))

/** Deletes a policy whose file was removed. */
export const deleteFilePolicy = remove

const namesOf = (db: Db, rows: readonly { changed_by?: string | null; created_by?: string | null }[]) =>
  keyNames.names(
    db,
    rows.flatMap(({ changed_by, created_by }) => changed_by ?? created_by ?? []),
  )

function summaryOf(row: PolicyRow, names: ReadonlyMap<string, string>): PolicySummary {
  const { for: whom, enforceFor, flow, rules } = readPolicy(JSON.parse(row.document)).policy
  return {
    id: row.id,
    title: row.title,
    mode: row.mode,
    version: row.version,
    file: row.file,
    for: { agents: [...whom.agents], tags: [...whom.tags] },
    enforce_for: enforceFor ? { agents: [...enforceFor.agents], tags: [...enforceFor.tags] } : null,
    flow,
    rules: rules.map(({ title, decision }) => ({ title, decision })),
    created_at: isoTime(row.created_at),
    changed_at: isoTime(row.changed_at),
    changed_by: row.changed_by === null ? null : (names.get(row.changed_by) ?? row.changed_by),
  }
}

export async function listPolicies(db: Db): Promise<Omit<PolicyList, 'file_faults'>> {
  const set_version = await readSetVersion(db)
  const rows = await readPolicies(db)
  const names = await namesOf(db, rows)
  return { policies: rows.map((row) => summaryOf(row, names)), set_version }
}

/** Throws AppError `not_found`. */
export async function viewPolicy(db: Db, id: string, given: { version?: string }): Promise<PolicyView> {
  const row = await findPolicy(db, id)
  if (!row) throw unknownPolicy(id)
  const version = given.version === undefined ? row.version : Number(given.version)
  const stored = await findVersion(db, id, version)
  if (!stored) throw new AppError('not_found', `The policy has no version ${version}; the newest is ${row.version}.`)
  const versions = await readVersions(db, id, storedPolicyLimits.listedVersions)
  const names = await namesOf(db, [row, ...versions])
  const document = documentOf(stored.text)
  return {
    ...summaryOf(row, names),
    version,
    document: version === row.version ? { ...document, mode: row.mode } : document,
    text: stored.text,
    format: stored.format,
    versions: versions.map(({ version: number, created_at, created_by }) => ({
      version: Number(number),
      created_at: isoTime(created_at),
      created_by: created_by === null ? null : (names.get(created_by) ?? created_by),
    })),
  }
}
