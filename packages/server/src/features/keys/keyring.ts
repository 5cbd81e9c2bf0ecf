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

/** The principal of WARDLINE_API_KEY. */
const configuredKeyId = 'configured'

function toKnown(row: KeyRow): KnownKey {
  const bound = JSON.parse(row.instances) as string[]
  return {
    principal: { keyId: row.id, scope: row.scope, instances: row.scope === 'agent' ? bound : null },
    secretHash: row.secret_hash,
    expiresAt: row.expires_at ?? Infinity,
  }
}

/**
 * The keys that are valid now, in memory: no request waits for the database to be let in.
 * Refreshed after every change here, and every half second for changes made elsewhere.
 */
export class Keyring {
  readonly #deps: Deps
  readonly #configuredHash: string | undefined
  #known = new Map<string, KnownKey>()
  readonly #used = new Set<string>()

  constructor(deps: Deps) {
    this.#deps = deps
    this.#configuredHash = deps.config.apiKey === undefined ? undefined : hashKey(deps.config.apiKey)
  }

  /** Reads the keys anew. */
  async refresh(): Promise<void> {
    const rows = await readKeys(this.#deps.database.db)
    this.#known = new Map(rows.filter((row) => row.revoked_at === null).map((row) => [row.id, toKnown(row)]))
  }

  /** The principal of a presented key; undefined when it is not valid. */
  find(presented: string): Principal | undefined {
    const presentedHash = hashKey(presented)
    if (this.#configuredHash && sameHash(presentedHash, this.#configuredHash)) {
      return { keyId: configuredKeyId, scope: 'admin', instances: null }
    }
    const id = parseKeyId(presented)
    const known = id === undefined ? undefined : this.#known.get(id)
    const matches = sameHash(presentedHash, known?.secretHash ?? noHash)
    if (!known || !matches) return this.#refuse(id === undefined ? 'malformed' : 'unknown')
    if (known.expiresAt <= this.#deps.clock.now()) return this.#refuse('expired')
    this.#used.add(known.principal.keyId)
    return known.principal
  }

  /** The principal of a key that was already proven, by its id; undefined once it is revoked or expired. */
  findById(keyId: string): Principal | undefined {
    if (keyId === configuredKeyId && this.#configuredHash) return { keyId, scope: 'admin', instances: null }
    const known = this.#known.get(keyId)
    return known && known.expiresAt > this.#deps.clock.now() ? known.principal : undefined
  }

  /** Writes when the keys used since the last call were last used. */
  async flushUsage(): Promise<void> {
    if (this.#used.size === 0) return
    const ids = [...this.#used]
    this.#used.clear()
    await touchKeys(this.#deps.database.db, ids, this.#deps.clock.now())
  }

  #refuse(reason: string): undefined {
    this.#deps.metrics.authFailures.inc({ reason })
  }
}
