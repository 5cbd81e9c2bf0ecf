import type {
  DecoyState,
  HoneypotCreated,
  HoneypotDetail,
  KeyType,
  ListedHoneypot,
  NewHoneypot,
  Rotated,
} from '@wardline/contract'
import { dayMs, isoTime, isoTimeOrNull } from '../../clock.ts'
import type { Db, Statement } from '../../db/database.ts'
import { claimFact, isFactKnown } from '../../db/facts.ts'
import { changeGuarded } from '../../db/guarded-change.ts'
import { pagesOf } from '../../db/portions.ts'
import { readTeam, type Team } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { AppError, unknownInstance } from '../../errors.ts'
import { uuidV7, uuidV7Floor } from '../../ids.ts'
import { auditStatements } from '../audit/audit.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import { createDecoyDigest, type DecoyDigest } from './decoy-digest.ts'
import { decoyUrlBase } from './decoy-fetches.ts'
import { decoyFolderKeys } from './decoy-folders.ts'
import { generateDecoyKey } from './decoy-keys.ts'
import { everyAgent, instanceOf, isOutside } from './decoy-scope.ts'
import { type Asking, inventoryOf, notFound, rotateDecoy } from './inventory.ts'
import { foldedForm } from './key-formats.ts'
import { decoyPathKeys } from './path-forms.ts'
import { isPathPattern, validatePathPattern } from './path-pattern.ts'
import {
  type Decoy,
  findHoneypot,
  type HoneypotRow,
  insertFingerprints,
  insertHoneypotStatements,
  listHoneypotDetails,
  listHoneypotRows,
  readHits,
  readLabels,
  readPaths,
  removeHoneypotStatements,
} from './queries.ts'

/** Identifies decoys of these ids without key or path, removed ones included. */
export async function readDecoyLabels(db: Db, ids: readonly string[]) {
  const rows = ids.length === 0 ? [] : await readLabels(db, ids)
  return rows.map(({ instance_id, ...decoy }) => ({ ...decoy, instance_id: instanceOf(instance_id) }))
}

interface Prepared {
  keyType: KeyType | null
  path: string | null
  isPattern: boolean
  digests: string[]
  /** The decoy key, shown once. */
  value: string | undefined
}

function folderDigests(path: string, digest: DecoyDigest): string[] {
  const { own, above } = decoyFolderKeys(path)
  return [...own.map((form) => digest('folder', form)), ...above.map((form) => digest('above', form))]
}

function prepare({ type, keyType, path, instanceId }: NewHoneypot, key: Buffer, urlBase: string | undefined): Prepared {
  const digest = createDecoyDigest(key)
  if (type === 'api_key') {
    if (keyType === undefined) throw new AppError('invalid', 'keyType is required for type api_key.')
    if (instanceId === undefined) throw new AppError('invalid', 'instanceId is required for type api_key.')
    if (keyType === 'url' && urlBase === undefined) {
      throw new AppError('invalid', 'keyType url needs a listener: set WARDLINE_DECOY_PORT and restart the service.')
    }
    const { value, fingerprintForms } = generateDecoyKey(keyType)
    const digests = fingerprintForms.flatMap((form) => [digest('key', form), digest('key', foldedForm(form))])
    return {
      keyType,
      path: null,
      isPattern: false,
      digests,
      value: keyType === 'url' ? `${urlBase}/d/${value}` : value,
    }
  }
  if (path === undefined) throw new AppError('invalid', 'path is required for type file_path.')
  const fault = validatePathPattern(path)
  if (fault) throw new AppError('invalid', `path is refused. ${fault}`)
  const isPattern = isPathPattern(path)
  const own = isPattern ? [] : decoyPathKeys(path).map((form) => digest('path', form))
  return {
    keyType: null,
    path,
    isPattern,
    digests: [...new Set([...own, ...folderDigests(path, digest)])],
    value: undefined,
  }
}

const unplanted = {
  planted_at: null,
  planted_by: null,
  planted_note: null,
  planted_file: null,
  tripped_at: null,
  leaked_at: null,
  retired_at: null,
  replaced_by: null,
}

/** Throws AppError unless the decoy is for an agent of the team. */
async function assertOfTeam(db: Db, instanceId: string | undefined, team: Team): Promise<void> {
  if (!team) return
  if (instanceId === undefined) {
    throw new AppError('invalid', `instanceId is required: you are limited to agents tagged ${team.join(' or ')}.`)
  }
  if (!(await readTeam(db, team, [instanceId])).has(instanceId)) throw unknownInstance(instanceId)
}

/** Creates a decoy. The value of a key is only in the response. Throws AppError `invalid` or `not_found`. */
export async function createHoneypot(
  deps: Deps,
  request: NewHoneypot,
  { actor, team }: Asking,
): Promise<HoneypotCreated> {
  await assertOfTeam(deps.database.db, request.instanceId, team)
  const { keyType, path, isPattern, digests, value } = prepare(
    request,
    deps.secrets.decoyKey,
    decoyUrlBase(deps.config),
  )
  const { type, label = null } = request
  const instanceId = request.instanceId ?? everyAgent
  const now = deps.clock.now()
  const id = uuidV7(now)
  const row = {
    id,
    instance_id: instanceId,
    type,
    key_type: keyType,
    path,
    is_pattern: isPattern ? (1 as const) : (0 as const),
    label,
    created_at: now,
    deleted_at: null,
    ...unplanted,
  }
  const after = { type, instance_id: instanceOf(instanceId), key_type: keyType, path, label }
  const action = { action: 'honeypot.create', target: id, before: null, after }
  const statements = [
    ...insertHoneypotStatements(deps.database.db, row, digests),
    ...auditStatements(deps.database, actor, action, now),
  ]
  await deps.database.batch(statements, { isControl: true })
  const kind = keyType === null ? { path: path! } : { keyType }
  return { ok: true, id, type, ...kind, createdAt: isoTime(now), ...(value === undefined ? {} : { key: value }) }
}

/** Replaces the value of a decoy key. The new value is only in the response. Throws AppError `invalid`, `not_found`. */
export function rotateHoneypot(deps: Deps, oldId: string, asking: Asking): Promise<Rotated> {
  return rotateDecoy(deps, oldId, asking, (old, now) => {
    const { instance_id: instanceId, key_type, label } = old
    const request = { instanceId, type: 'api_key' as const, keyType: key_type as KeyType }
    const { digests, value } = prepare(request, deps.secrets.decoyKey, decoyUrlBase(deps.config))
    const id = uuidV7(now)
    const row = {
      id,
      instance_id: instanceId,
      type: 'api_key' as const,
      key_type,
      path: null,
      is_pattern: 0 as const,
      label,
      created_at: now,
      deleted_at: null,
      ...unplanted,
    }
    return { id, value: value!, statements: insertHoneypotStatements(deps.database.db, row, digests) }
  })
}

/** Removes a decoy; its hits stay. Throws AppError `not_found`. */
export function deleteHoneypot(
  deps: Deps,
  protection: ProtectionAlerts,
  id: string,
  { actor, team }: Asking,
): Promise<void> {
  const { database, clock } = deps
  const now = clock.now()
  return changeGuarded(database, async () => {
    const row = await findHoneypot(database.db, id, team)
    if (!row || row.deleted_at !== null) throw notFound(id)
    const before = { instance_id: instanceOf(row.instance_id), type: row.type }
    const action = { action: 'honeypot.delete', target: id, before, after: null }
    const statements = [
      ...removeHoneypotStatements(database, id, now),
      ...protection.statements(actor, action, now),
      ...auditStatements(database, actor, action, now),
    ]
    return { statements, result: () => {} }
  })
}

/** Decoys whose digests are computed at once. */
const pageRows = 50
/** Digests per statement, with two parameters each: some databases accept at most 32,766 parameters. */
const rowsOfStatement = 5_000

/** Adds missing folder digests to path decoys after `afterId`; each page is one transaction. */
async function addFolders({ database, secrets }: FolderDeps, afterId: string): Promise<void> {
  const digest = createDecoyDigest(secrets.decoyKey)
  const pages = pagesOf(pageRows, (last?: Decoy) => readPaths(database.db, last?.id ?? afterId, pageRows))
  for await (const page of pages) {
    const rows = page.flatMap(({ id, path }) =>
      folderDigests(path!, digest).map((form) => ({ digest: form, honeypot_id: id })),
    )
    const statements: Statement[] = []
    for (let start = 0; start < rows.length; start += rowsOfStatement) {
      statements.push(insertFingerprints(database.db, rows.slice(start, start + rowsOfStatement)))
    }
    if (statements.length > 0) await database.batch(statements)
  }
}

type FolderDeps = Pick<Deps, 'database' | 'secrets'>

/** Adds folder digests to decoys of earlier versions, once. May run in several processes concurrently. */
export async function completeFolders(deps: FolderDeps): Promise<void> {
  if (await isFactKnown(deps.database.db, 'decoy_folders')) return
  await addFolders(deps, '')
  await claimFact(deps.database.db, 'decoy_folders', 'complete')
}

/** The first run looks back further, because no process of this version may have run in between. */
const firstLookBackMs = dayMs
/** More than clocks of processes differ, and than the delay between a decoy's id and its commit. */
const settlingMs = 300_000

/** Periodic job: adds digests to decoys that a process of an earlier version creates at the same time, or did shortly before. */
export function createFolderCompletion(deps: FolderDeps & Pick<Deps, 'clock'>): () => Promise<void> {
  let after = uuidV7Floor(deps.clock.now() - firstLookBackMs)
  return async () => {
    const settled = uuidV7Floor(deps.clock.now() - settlingMs)
    await addFolders(deps, after)
    after = settled
  }
}

const keyTypeOf = (keyType: string | null) => (keyType === null ? {} : { keyType: keyType as KeyType })

/** Lists decoys of one instance or of all, oldest first. `details` are optional, because they count hits. */
export async function listHoneypots(
  db: Db,
  {
    hasDetails,
    ...which
  }: { hasDetails: boolean; instanceId: string | undefined; state: DecoyState | undefined; team: Team },
): Promise<ListedHoneypot[]> {
  if (!hasDetails) return (await listHoneypotRows(db, which)).map(listedHoneypot)
  return (await listHoneypotDetails(db, which)).map((row) => ({
    ...listedHoneypot(row),
    details: {
      ...(row.path === null ? {} : { path: row.path }),
      instanceId: instanceOf(row.instance_id),
      label: row.label,
      ...inventoryOf(row),
      hit_count: row.hits ?? 0,
      first_hit_at: isoTimeOrNull(row.first_hit),
      last_hit_at: isoTimeOrNull(row.last_hit),
    },
  }))
}

const listedHoneypot = (
  row: Pick<HoneypotRow, 'id' | 'type' | 'key_type' | 'created_at'>,
): Omit<ListedHoneypot, 'details'> => ({
  id: row.id,
  type: row.type,
  ...keyTypeOf(row.key_type),
  createdAt: isoTime(row.created_at),
})

const shownHits = 100

/** Returns one decoy, including removed ones, with its latest hits. Throws AppError `not_found`. */
export async function viewHoneypot(db: Db, id: string, team: Team): Promise<HoneypotDetail> {
  const row = await findHoneypot(db, id, team)
  if (!row) throw notFound(id)
  const { hits, count, first } = await readHits(db, id, { limit: shownHits, team })
  return {
    id,
    type: row.type,
    ...keyTypeOf(row.key_type),
    ...(row.path === null ? {} : { path: row.path }),
    instanceId: instanceOf(row.instance_id),
    label: row.label,
    createdAt: isoTime(row.created_at),
    deleted_at: isoTimeOrNull(row.deleted_at),
    ...inventoryOf(row),
    hit_count: count,
    first_hit_at: isoTimeOrNull(first),
    hits: hits.map((hit) => ({
      id: hit.id,
      at: isoTime(hit.at),
      reporter: hit.reporter,
      tool: hit.tool,
      ip_address: hit.ip_address,
      event_id: hit.event_id,
      form: hit.form,
      test: hit.is_test === 1,
      ignored: hit.is_ignored === 1,
      outside: isOutside(hit.reporter, row),
    })),
  }
}
