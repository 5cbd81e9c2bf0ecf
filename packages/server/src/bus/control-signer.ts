import { type KeyObject, sign } from 'node:crypto'
import type { ControlKeys, ControlMessage, DrillMessage } from '@wardline/contract'
import { keyPairOf } from '../ed25519.ts'
import type { Secrets } from '../secrets.ts'
import { signControl, type UnsignedControl } from './control-signature.ts'
import { createMac, type Mac } from './signed-event.ts'

/** One signature for each instance, up to the default maximum of instances: about 60 MB when all of them poll. */
const maxKept = 100_000

/** The text that agents verify. Only the reason may hold line feeds, and it stands between fields that cannot. */
function signedText({ instance_id, action, reason = '', version, issued_at }: UnsignedControl): string {
  return `wardline-control-v1\n${instance_id}\n${action}\n${reason}\n${version}\n${issued_at}\n`
}

/**
 * Signs control messages twice: by HMAC for the processes of this deployment, and by Ed25519 (RFC 8032) for agents,
 * which hold the public key only. Every process derives the same key pair, and Ed25519 is deterministic: all of them
 * give the same signature for the same state.
 */
export class ControlSigner {
  readonly #mac: Mac
  readonly #privateKey: KeyObject
  readonly #kept = new Map<string, { text: string; signature: string }>()
  /** Signatures computed so far. */
  computed = 0
  readonly keys: Pick<ControlKeys, 'keys'>

  constructor({ controlKey, controlSeed }: Pick<Secrets, 'controlKey' | 'controlSeed'>) {
    this.#mac = createMac(controlKey)
    const { privateKey, x, kid } = keyPairOf(controlSeed)
    this.#privateKey = privateKey
    this.keys = { keys: [{ kty: 'OKP', crv: 'Ed25519', x, kid, use: 'sig', alg: 'EdDSA' }] }
  }

  /** The message with both signatures. */
  sign(message: UnsignedControl): ControlMessage {
    const signature = signControl(message, this.#mac)
    return { ...message, signature, signature_ed25519: this.agentSignature(message) }
  }

  /** A drill with its signature for agents. Its text begins with another line than that of a control message. */
  signDrill(message: Omit<DrillMessage, 'action' | 'signature_ed25519'>): DrillMessage {
    const { instance_id, nonce, issued_at } = message
    const text = Buffer.from(`wardline-drill-v1\n${instance_id}\n${nonce}\n${issued_at}\n`)
    const signature = sign(null, text, this.#privateKey).toString('base64url')
    return { action: 'drill', instance_id, nonce, issued_at, signature_ed25519: signature }
  }

  /** The Ed25519 signature, base64url; computed once for each change of an instance. */
  agentSignature(message: UnsignedControl): string {
    const text = signedText(message)
    const kept = this.#kept.get(message.instance_id)
    if (kept?.text === text) return kept.signature
    const signature = sign(null, Buffer.from(text), this.#privateKey).toString('base64url')
    this.computed += 1
    if (!kept && this.#kept.size >= maxKept) {
      const [oldest] = this.#kept.keys()
      this.#kept.delete(oldest!)
    }
    this.#kept.set(message.instance_id, { text, signature })
    return signature
  }
}
