import type { Deps } from '../../deps.ts'
import type { Principal } from '../../http/auth.ts'
import { hashKey, parseKeyId, sameHash } from './key-format.ts'
import { type KeyRow, readKeys, touchKeys } from './queries.ts'

interface KnownKey {
  principal: Principal
  secretHash: string
  expiresAt: number
}

/** Compared with when the id is unknown, so that a known id cannot be told by the time of the answer. */
const noHash = hashKey('')

/** The principal of WARDLINE_API_KEY. Its id tells one value from the next: a session must not survive a replacement. */
const configuredPrincipal = (keyHash: string): Principal => ({
  keyId: `configured-${hashKey(keyHash).slice(0, 8)}`,
  scope: 'admin',
  instances: null,
})

function toKnown(row: KeyRow): KnownKey {
  const bound = JSON.parse(row.instances) as string[]
  return {
    principal: { keyId: row.id, scope: row.scope, instances: row.scope === 'agent' ? bound : null },
    secretHash: row.secret_hash,
    expiresAt: row.expires_at ?? Infinity,
  }
}

/** Keys in use at a time; more only makes some of them be hashed again. */
const maxProven = 10_000

/**
 * The keys that are valid now, in memory: no request waits for the database to be let in.
 * Refreshed after every change here, and every half second for changes made elsewhere.
 */
export class Keyring {
  readonly #deps: Deps
  readonly #configured: { hash: string; principal: Principal } | undefined
  #known = new Map<string, KnownKey>()
  readonly #used = new Set<string>()
  /** Key ids by keys that were proven lately: hashing the same key for every request would cost more than all else here. */
  readonly #proven = new Map<string, string>()

  constructor(deps: Deps) {
    this.#deps = deps
    if (deps.config.apiKey === undefined) return
    const hash = hashKey(deps.config.apiKey)
    this.#configured = { hash, principal: configuredPrincipal(hash) }
  }

  /** Reads the keys anew. */
  async refresh(): Promise<void> {
    const rows = await readKeys(this.#deps.database.db)
    this.#known = new Map(rows.filter((row) => row.revoked_at === null).map((row) => [row.id, toKnown(row)]))
  }

  /** The principal of a presented key; undefined when it is not valid. */
  find(presented: string): Principal | undefined {
    const provenId = this.#proven.get(presented)
    return (provenId === undefined ? undefined : this.findById(provenId)) ?? this.#prove(presented)
  }

  #prove(presented: string): Principal | undefined {
    const presentedHash = hashKey(presented)
    if (this.#configured && sameHash(presentedHash, this.#configured.hash)) {
      return this.#remember(presented, this.#configured.principal)
    }
    const id = parseKeyId(presented)
    const known = id === undefined ? undefined : this.#known.get(id)
    const matches = sameHash(presentedHash, known?.secretHash ?? noHash)
    if (!known || !matches) return this.#refuse(id === undefined ? 'malformed' : 'unknown')
    if (known.expiresAt <= this.#deps.clock.now()) return this.#refuse('expired')
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

  #refuse(reason: string): undefined {
    this.#deps.metrics.authFailures.inc({ reason })
  }
}
