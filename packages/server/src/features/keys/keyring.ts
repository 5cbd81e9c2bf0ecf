import { WriteBehind } from '../../db/write-behind.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import { configuredKeyId, hashKey, parseKeyId, sameHash } from './key-format.ts'
import { configuredKeyName } from './key-names.ts'
import { findKey, type KeyRow, readKeys, touchKeys } from './queries.ts'
import { type Limits, limitsOfConfiguredKey, maxInstances } from './quota-limits.ts'
import type { Quotas } from './quotas.ts'

interface KnownKey {
  principal: Principal
  secretHash: string
  expiresAt: number
}

/** Compared if the id is unknown, so that the response time does not reveal which ids exist. */
const noHash = hashKey('')

function configuredPrincipal(keyHash: string): Principal {
  const keyId = configuredKeyId(keyHash)
  return {
    keyId,
    name: configuredKeyName,
    scope: 'admin',
    instances: null,
    registers: { owner: keyId, max: null, tags: null },
  }
}

function toKnown(row: KeyRow): KnownKey {
  const bound = JSON.parse(row.instances) as string[]
  const registers = { owner: row.owner ?? row.id, max: maxInstances(row), tags: row.tags }
  return {
    principal: {
      keyId: row.id,
      name: row.name,
      scope: row.scope,
      instances: row.scope === 'agent' ? bound : null,
      registers,
      ...(row.approves === null ? {} : { approves: JSON.parse(row.approves) as string[] }),
      ...(row.team === null ? {} : { team: JSON.parse(row.team) as string[] }),
      ...(row.models === null ? {} : { models: JSON.parse(row.models) as string[] }),
      ...(row.supervises === 1 ? { supervises: true } : {}),
    },
    secretHash: row.secret_hash,
    expiresAt: row.expires_at ?? Infinity,
  }
}

/**
 * Concurrent database look-ups of unknown keys, to protect the database from a flood of guesses. Beyond the limit, a
 * key that another process created works after the next refresh.
 */
const maxLookUps = 8

/** Maximum size of the cache of proven keys. A full cache is cleared, and keys are hashed again. */
const maxProven = 10_000

/**
 * The valid keys in memory, so that requests with a known key wait for no query. Reloaded after every change by this
 * process, and every half second for changes by other processes.
 */
export class Keyring {
  readonly #deps: Deps
  readonly #quotas: Pick<Quotas, 'update'>
  readonly #configured: { hash: string; principal: Principal } | undefined
  readonly #configuredLimits: Limits
  #known = new Map<string, KnownKey>()
  /** Times of use that are not stored yet, by key. */
  readonly #used: WriteBehind<number>
  /** Ids by the text of recently proven keys. Hashing the key of every request would be the largest cost here. */
  readonly #proven = new Map<string, string>()
  #lookUps = 0

  constructor(deps: Deps, quotas: Pick<Quotas, 'update'>) {
    this.#deps = deps
    this.#quotas = quotas
    const { database } = deps
    this.#used = new WriteBehind({ merge: (_, newer) => newer, write: (used) => touchKeys(database, used) })
    this.#configuredLimits = limitsOfConfiguredKey(deps.config)
    if (deps.config.apiKey === undefined) return
    const hash = hashKey(deps.config.apiKey)
    this.#configured = { hash, principal: configuredPrincipal(hash) }
  }

  /** Reloads the keys. */
  async refresh(): Promise<void> {
    const rows = await readKeys(this.#deps.database.db)
    const valid = rows.filter((row) => row.revoked_at === null)
    this.#known = new Map(valid.map((row) => [row.id, toKnown(row)]))
    const keyId = this.#configured?.principal.keyId
    this.#quotas.update(valid, keyId === undefined ? undefined : { keyId, limits: this.#configuredLimits })
  }

  /** Returns the principal of a presented key. An invalid key counts as a failure unless `isLast` is false. */
  find(presented: string, isLast = true): Principal | undefined {
    const provenId = this.#proven.get(presented)
    const proven = provenId === undefined ? undefined : this.findById(provenId)
    if (proven) return proven
    const found = this.#prove(presented)
    if (typeof found !== 'string') return found
    if (isLast) this.#deps.metrics.authFailures.inc({ reason: found })
    return undefined
  }

  /**
   * Like `find`, after a database look-up, because another process or the command line may have just created the key.
   * The work is the same whether or not the id exists. Throws AppError `unavailable` if the query fails: the key may be
   * valid, so this must not count as a failed attempt.
   */
  async findStored(presented: string): Promise<Principal | undefined> {
    const id = parseKeyId(presented)
    if (id !== undefined) {
      await this.#lookUp(id, (row) => sameHash(hashKey(presented), row?.secret_hash ?? noHash))
    }
    return this.find(presented)
  }

  /** Like `findById`, after a database look-up of a key that this process does not know. Throws AppError `unavailable`. */
  async findStoredById(keyId: string): Promise<Principal | undefined> {
    if (!this.isValid(keyId) && !this.#known.has(keyId)) await this.#lookUp(keyId, (row) => row !== undefined)
    return this.findById(keyId)
  }

  /** Reloads the keys if the stored key is accepted and unknown. */
  async #lookUp(id: string, isRight: (row: KeyRow | undefined) => boolean): Promise<void> {
    if (this.#lookUps >= maxLookUps) return
    this.#lookUps += 1
    try {
      const row = await findKey(this.#deps.database.db, id)
      if (isRight(row) && !this.#known.has(id)) await this.refresh()
    } catch {
      throw new AppError('unavailable', 'The key cannot be checked: the database is unavailable.', 1)
    } finally {
      this.#lookUps -= 1
    }
  }

  #prove(presented: string): Principal | 'malformed' | 'unknown' | 'expired' {
    const presentedHash = hashKey(presented)
    if (this.#configured && sameHash(presentedHash, this.#configured.hash)) {
      return this.#remember(presented, this.#configured.principal)
    }
    const id = parseKeyId(presented)
    const known = id === undefined ? undefined : this.#known.get(id)
    const matches = sameHash(presentedHash, known?.secretHash ?? noHash)
    if (!known || !matches) return id === undefined ? 'malformed' : 'unknown'
    const now = this.#deps.clock.now()
    if (known.expiresAt <= now) return 'expired'
    this.#used.note(known.principal.keyId, now)
    return this.#remember(presented, known.principal)
  }

  /** Returns the principal of a key that was already proven; undefined if it is now revoked or expired. */
  findById(keyId: string): Principal | undefined {
    if (keyId === this.#configured?.principal.keyId) return this.#configured.principal
    const known = this.#known.get(keyId)
    const now = this.#deps.clock.now()
    if (!known || known.expiresAt <= now) return undefined
    this.#used.note(keyId, now)
    return known.principal
  }

  /** Whether a key that was already proven is still valid. Does not count as a use of the key. */
  isValid(keyId: string): boolean {
    if (keyId === this.#configured?.principal.keyId) return true
    const known = this.#known.get(keyId)
    return known !== undefined && known.expiresAt > this.#deps.clock.now()
  }

  /** Stores the last use of the keys used since the last call. */
  flushUsage(): Promise<void> {
    return this.#used.write()
  }

  #remember(presented: string, principal: Principal): Principal {
    if (this.#proven.size >= maxProven) this.#proven.clear()
    this.#proven.set(presented, principal.keyId)
    return principal
  }
}
