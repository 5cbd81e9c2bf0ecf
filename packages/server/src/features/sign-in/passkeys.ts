import type { Config } from '../../config/config.ts'
import type { Deps } from '../../deps.ts'
import type { Principal } from '../../http/auth.ts'
import { isLocalAdmin } from '../keys/bootstrap.ts'
import type { Keyring } from '../keys/keyring.ts'
import type { Holders } from '../keys/sessions.ts'
import { isPasskeyId, type PasskeyRow, readPasskeys } from '../people/passkey-statements.ts'
import { usableRpId } from './passkey-site.ts'

/** How long requests without a key share what was read. */
const rememberMs = 1_000

/**
 * The passkeys of the local admin in memory, as the database had them when a session of the local admin was last read. A
 * passkey acts for the key under which it was registered, and ends with it: replacing a key that others may know ends
 * what they registered with it.
 */
export class Passkeys implements Holders {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #keyring: Pick<Keyring, 'findById' | 'findStoredById' | 'isValid'>
  readonly #rpId: string | undefined
  #stored: readonly PasskeyRow[] = []
  #readAt: number | undefined

  constructor(
    deps: Pick<Deps, 'database' | 'clock'> & { config: Pick<Config, 'publicUrl'> },
    { keyring }: { keyring: Pick<Keyring, 'findById' | 'findStoredById' | 'isValid'> },
  ) {
    this.#deps = deps
    this.#keyring = keyring
    this.#rpId = usableRpId(deps.config)
  }

  async refresh(): Promise<void> {
    const readAt = this.#deps.clock.monotonic()
    this.#stored = await readPasskeys(this.#deps.database.db)
    this.#readAt = readAt
  }

  /** Like `refresh`, at most once a second: for requests without a key. */
  async refreshLately(): Promise<void> {
    if (this.#readAt === undefined || this.#deps.clock.monotonic() - this.#readAt >= rememberMs) await this.refresh()
  }

  /** Returns the passkeys whose keys are valid, oldest first. */
  valid(): PasskeyRow[] {
    return this.#stored.filter(({ key_id }) => this.#keyring.isValid(key_id))
  }

  /** Returns those that browsers still find: passkeys are bound to the host name of the service. */
  usable(): PasskeyRow[] {
    return this.valid().filter(({ rp_id }) => rp_id === this.#rpId)
  }

  /** Whether the key, or the passkey and its key, are still valid. */
  isValid(id: string): boolean {
    return isPasskeyId(id) ? this.valid().some((passkey) => passkey.id === id) : this.#keyring.isValid(id)
  }

  /** Returns the principal of a key or passkey. */
  findById(id: string): Principal | undefined {
    if (isPasskeyId(id)) {
      const passkey = this.#stored.find((stored) => stored.id === id)
      return passkey && this.principalOf(passkey)
    }
    const key = this.#keyring.findById(id)
    return key && isLocalAdmin(key) && this.usable().length > 0 ? { ...key, confirmsByPasskey: true } : key
  }

  /** Like `findById`, after a database look-up, because another process may have registered or removed a passkey. */
  async findStoredById(id: string): Promise<Principal | undefined> {
    const key = isPasskeyId(id) ? undefined : await this.#keyring.findStoredById(id)
    if (isPasskeyId(id) || (key && isLocalAdmin(key))) await this.refresh()
    return this.findById(id)
  }

  /** Returns what a session of the passkey may do: what its key may, under its own name. */
  principalOf({ id, name, key_id }: PasskeyRow): Principal | undefined {
    const key = this.#keyring.findById(key_id)
    return key && { ...key, keyId: id, name, passkey: true, confirmsByPasskey: true }
  }
}
