import { type KeyCreated, type KeyQuotas, type KeyView, limits, type NewKey } from '@wardline/contract'
import { isoTime, isoTimeOrNull } from '../../clock.ts'
import type { Database, Db, Statement } from '../../db/database.ts'
import { changeGuarded } from '../../db/guarded-change.ts'
import { AppError, unknownId } from '../../errors.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import { isPersonId } from '../people/person-statements.ts'
import { firstKeyName } from './bootstrap.ts'
import { generateKey } from './key-format.ts'
import {
  expireKeyStatement,
  findKey,
  insertKeyStatement,
  type KeyRow,
  lockKey,
  quotasStatement,
  readKeys,
  revokeKeyStatement,
} from './queries.ts'
import { maxInstances } from './quota-limits.ts'

/** Default time that an old key stays valid after its rotation. */
const defaultOverlapSeconds = 86_400

const notFound = (id: string) => unknownId('valid key', id, 'wardline keys list')

function checkBinding({ scope, instances }: NewKey): string[] {
  if (scope === 'agent' && !instances) throw new AppError('invalid', 'instances is required for scope agent.')
  if (scope !== 'agent' && instances) throw new AppError('invalid', `instances must be absent for scope ${scope}.`)
  return instances ?? []
}

/** An agent key without a name is named after its instances. */
function checkName({ scope, name, instances }: NewKey): string {
  if (name === firstKeyName) {
    throw new AppError('invalid', `name must not be ${firstKeyName}: this is the name of the key of the first startup.`)
  }
  if (name !== undefined) return name
  if (scope !== 'agent' || !instances) throw new AppError('invalid', `name is required for scope ${scope}.`)
  const list = instances.join(', ')
  return list.length <= limits.keyName ? list : `${list.slice(0, limits.keyName - 1)}…`
}

function checkMaxInstances({ scope, max_instances }: NewKey): number | null {
  if (scope !== 'agent' && max_instances !== undefined) {
    throw new AppError('invalid', `max_instances must be absent for scope ${scope}.`)
  }
  return max_instances ?? null
}

const listText = (tags: readonly string[]): string => JSON.stringify([...new Set(tags)].sort())

function checkTags({ scope, tags = [] }: NewKey): string | null {
  if (scope !== 'agent' && tags.length > 0) throw new AppError('invalid', `tags must be absent for scope ${scope}.`)
  return tags.length === 0 ? null : listText(tags)
}

function checkApproves({ scope, approves }: NewKey): string | null {
  if (approves === undefined) return null
  if (scope !== 'operator') throw new AppError('invalid', `approves must be absent for scope ${scope}.`)
  return listText(approves)
}

function checkTagsScope({ scope, tags_scope }: NewKey): string | null {
  if (tags_scope === undefined) return null
  if (scope !== 'viewer' && scope !== 'operator') {
    throw new AppError('invalid', `tags_scope must be absent for scope ${scope}.`)
  }
  return listText(tags_scope)
}

function checkModels({ scope, models }: NewKey): string | null {
  if (models === undefined) return null
  if (scope !== 'agent') throw new AppError('invalid', `models must be absent for scope ${scope}.`)
  return listText(models)
}

function checkSupervises({ scope, supervises = false }: NewKey): 1 | null {
  if (scope !== 'agent' && supervises) throw new AppError('invalid', `supervises must be absent for scope ${scope}.`)
  return supervises ? 1 : null
}

function checkExpiry(expiresAt: string | undefined, now: number): number | null {
  if (expiresAt === undefined) return null
  const time = Date.parse(expiresAt)
  if (!(time > now)) throw new AppError('invalid', 'expires_at must be in the future.')
  return time
}

const quotasOf = ({ quotas }: Pick<KeyRow, 'quotas'>): KeyQuotas => JSON.parse(quotas ?? '{}')
const quotasText = (quotas: KeyQuotas): string | null =>
  Object.keys(quotas).length === 0 ? null : JSON.stringify(quotas)

type KeyGrant = Pick<
  KeyRow,
  | 'scope'
  | 'name'
  | 'instances'
  | 'expires_at'
  | 'quotas'
  | 'max_instances'
  | 'owner'
  | 'tags'
  | 'approves'
  | 'team'
  | 'models'
  | 'supervises'
>

/** Returns a new key and the statement that stores it. */
function issueKey({ db }: Database, grant: KeyGrant, now: number): { created: KeyCreated; statement: Statement } {
  const { id, key, secretHash } = generateKey(grant.scope)
  const row = { ...grant, id, secret_hash: secretHash, created_at: now, revoked_at: null, last_used_at: null }
  return { created: { ok: true, id, scope: grant.scope, key }, statement: insertKeyStatement(db, row) }
}

/**
 * Returns the person who creates or rotates a key with which others than agents act: they know its text, so it counts as
 * them where two operators are needed. Undefined for agents, whose owner counts their instances, and without a person.
 */
async function holderOf(
  { db }: Pick<Database, 'db'>,
  scope: KeyRow['scope'],
  actor: Actor,
): Promise<string | undefined> {
  if (scope === 'agent') return undefined
  const holder = isPersonId(actor.keyId) ? actor.keyId : (await findKey(db, actor.keyId))?.owner
  return holder && isPersonId(holder) ? holder : undefined
}

/** Creates a key. Its text is only in the result and is not stored. Throws AppError `invalid`. */
export async function createKey(database: Database, request: NewKey, actor: Actor, now: number): Promise<KeyCreated> {
  const instances = checkBinding(request)
  const expiresAt = checkExpiry(request.expires_at, now)
  const max_instances = checkMaxInstances(request)
  const name = checkName(request)
  const tags = checkTags(request)
  const approves = checkApproves(request)
  const team = checkTagsScope(request)
  const models = checkModels(request)
  const supervises = checkSupervises(request)
  const { scope, quotas = {} } = request
  const bound = JSON.stringify(instances)
  const limits = { quotas: quotasText(quotas), max_instances }
  const owner = (await holderOf(database, scope, actor)) ?? null
  const granted = { tags, approves, team, models, supervises }
  const grant = { scope, name, instances: bound, expires_at: expiresAt, owner, ...granted, ...limits }
  const { created, statement } = issueKey(database, grant, now)
  const given = { scope, name, instances, expires_at: expiresAt, quotas, max_instances }
  const after = {
    ...given,
    ...(tags === null ? {} : { tags: JSON.parse(tags) }),
    ...(approves === null ? {} : { approves: JSON.parse(approves) }),
    ...(team === null ? {} : { tags_scope: JSON.parse(team) }),
    ...(models === null ? {} : { models: JSON.parse(models) }),
    ...(supervises === null ? {} : { supervises: true }),
  }
  const action = { action: 'key.create', target: created.id, before: null, after }
  await database.batch([statement, ...auditStatements(database, actor, action, now)], { isControl: true })
  return created
}

/** Issues a key with the same grant; the old key expires after the overlap. Throws AppError `not_found`. */
export function rotateKey(
  database: Database,
  id: string,
  overlapSeconds: number | undefined,
  actor: Actor,
  now: number,
): Promise<KeyCreated> {
  const endsAt = now + (overlapSeconds ?? defaultOverlapSeconds) * 1000
  return changeGuarded(database, async () => {
    const old = await findKey(database.db, id)
    if (!old) throw notFound(id)
    const { scope, name, instances, expires_at, quotas, max_instances, tags, approves, team, models, supervises } = old
    const owner = (await holderOf(database, scope, actor)) ?? old.owner ?? old.id
    const grant = {
      scope,
      name,
      instances,
      expires_at,
      quotas,
      max_instances,
      tags,
      approves,
      team,
      models,
      supervises,
      owner,
    }
    const { created, statement } = issueKey(database, grant, now)
    const after = { successor: created.id, expires_at: endsAt }
    const action = { action: 'key.rotate', target: id, before: { expires_at }, after }
    return {
      statements: [
        lockKey(database, old),
        statement,
        expireKeyStatement(database.db, id, endsAt),
        ...auditStatements(database, actor, action, now),
      ],
      result: () => created,
    }
  })
}

/** Replaces the quotas of a key. Throws AppError `not_found` if it is unknown or revoked. */
export function setKeyQuotas(
  database: Database,
  id: string,
  quotas: KeyQuotas,
  actor: Actor,
  now: number,
): Promise<void> {
  return changeGuarded(database, async () => {
    const old = await findKey(database.db, id)
    if (!old) throw notFound(id)
    const action = { action: 'key.quotas', target: id, before: { quotas: quotasOf(old) }, after: { quotas } }
    const change = quotasStatement(database.db, id, quotasText(quotas))
    const statements = [lockKey(database, old), change, ...auditStatements(database, actor, action, now)]
    return { statements, result: () => {} }
  })
}

/** Revokes a key permanently. Throws AppError `not_found` if it is unknown or already revoked. */
export function revokeKey(database: Database, id: string, actor: Actor, now: number): Promise<void> {
  return changeGuarded(database, async () => {
    const old = await findKey(database.db, id)
    if (!old) throw notFound(id)
    const action = { action: 'key.revoke', target: id, before: { revoked_at: null }, after: { revoked_at: now } }
    const revoke = revokeKeyStatement(database.db, id, now)
    const statements = [lockKey(database, old), revoke, ...auditStatements(database, actor, action, now)]
    return { statements, result: () => {} }
  })
}

export async function listKeys(db: Db): Promise<KeyView[]> {
  const rows = await readKeys(db)
  return rows.map((row) => ({
    id: row.id,
    scope: row.scope,
    name: row.name,
    instances: JSON.parse(row.instances),
    max_instances: maxInstances(row),
    tags: JSON.parse(row.tags ?? '[]'),
    approves: row.approves === null ? null : JSON.parse(row.approves),
    tags_scope: row.team === null ? null : JSON.parse(row.team),
    models: row.models === null ? null : JSON.parse(row.models),
    supervises: row.supervises === 1,
    created_at: isoTime(row.created_at),
    expires_at: isoTimeOrNull(row.expires_at),
    revoked_at: isoTimeOrNull(row.revoked_at),
    last_used_at: isoTimeOrNull(row.last_used_at),
    quotas: quotasOf(row),
  }))
}
