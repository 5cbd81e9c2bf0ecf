import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import { configuredKeyPrefix, hashKey, parseKeyId, sameHash } from './key-format.ts'
import { configuredKeyName } from './key-names.ts'
import { findKey, type KeyRow, readKeys, touchKeys } from './queries.ts'
import { type Limits, limitsOfConfiguredKey, maxInstances } from './quota-limits.ts'
import type { Quotas } from './quotas.ts'

interface KnownKey {
  principal: Principal
  secretHash: string
  expiresAt: number
}

/** Compared with when the id is unknown, so that the time of the answer does not reveal known ids. */
const noHash = hashKey('')

/** The principal of WARDLINE_API_KEY. Its id depends on the value: a session must not survive a replacement. */
function configuredPrincipal(keyHash: string): Principal {
  const keyId = `${configuredKeyPrefix}${hashKey(keyHash).slice(0, 8)}`
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
    },
    secretHash: row.secret_hash,
    expiresAt: row.expires_at ?? Infinity,
  }
}

/** Unknown keys that are looked up at a time. Beyond, keys made elsewhere wait for the next refresh: a flood of guesses takes no more of the database. */
const maxLookUps = 8

/** Keys in use at a time; more only makes some of them be hashed again. */
const maxProven = 10_000

/**
 * The keys that are valid now, in memory: no request waits for the database to be let in.
 * Refreshed after every change here, and every half second for changes made elsewhere.
 */
export class Keyring {
  readonly #deps: Deps
  readonly #quotas: Pick<Quotas, 'update'>
  readonly #configured: { hash: string; principal: Principal } | undefined
  readonly #configuredLimits: Limits
  #known = new Map<string, KnownKey>()
  readonly #used = new Set<string>()
  /** Key ids by keys that were proven lately: hashing the same key for every request would cost more than all else here. */
  readonly #proven = new Map<string, string>()
  #lookUps = 0

  constructor(deps: Deps, quotas: Pick<Quotas, 'update'>) {
    this.#deps = deps
    this.#quotas = quotas
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

  /** The principal of a presented key; undefined when it is not valid, which counts as a failure unless `isLast` is false. */
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
   * The same once more, after a look into the database: another process, or the command line, may have made the key a
   * moment ago. Whether the id is known makes no difference to the work. Throws AppError `unavailable` when the database
   * cannot be asked: the key may be valid, so it must count as no failed attempt.
   */
  async findStored(presented: string): Promise<Principal | undefined> {
    const id = parseKeyId(presented)
    if (id !== undefined && this.#lookUps < maxLookUps) {
      this.#lookUps += 1
      try {
        const row = await findKey(this.#deps.database.db, id)
        const isRight = sameHash(hashKey(presented), row?.secret_hash ?? noHash)
        if (isRight && !this.#known.has(id)) await this.refresh()
      } catch {
        throw new AppError('unavailable', 'The key in X-Monitor-Key cannot be checked: the database is unavailable.', 1)
      } finally {
        this.#lookUps -= 1
      }
    }
    return this.find(presented)
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
    if (known.expiresAt <= this.#deps.clock.now()) return 'expired'
    return this.#remember(presented, known.principal)
  }

  /** The principal of a key that was already proven, by its id; undefined once it is revoked or expired. */
  findById(keyId: string): Principal | undefined {
    if (keyId === this.#configured?.principal.keyId) return this.#configured.principal
    const known = this.#known.get(keyId)
    if (!known || known.expiresAt <= this.#deps.clock.now()) return undefined
    this.#used.add(keyId)
    return known.principal
  }

  /** Whether a key that was proven before is still valid; asking is no use of it. */
  isValid(keyId: string): boolean {
    if (keyId === this.#configured?.principal.keyId) return true
    const known = this.#known.get(keyId)
    return known !== undefined && known.expiresAt > this.#deps.clock.now()
  }

  /** Writes when the keys used since the last call were last used. */
  async flushUsage(): Promise<void> {
    if (this.#used.size === 0) return
    const ids = [...this.#used]
    this.#used.clear()
    await touchKeys(this.#deps.database.db, ids, this.#deps.clock.now())
  }

  #remember(presented: string, principal: Principal): Principal {
    if (this.#proven.size >= maxProven) this.#proven.clear()
    this.#proven.set(presented, principal.keyId)
    return principal
  }
}
