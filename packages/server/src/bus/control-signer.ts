import { type KeyObject, sign } from 'node:crypto'
import type { ControlKeys, ControlMessage, DeliveredPolicy, DrillMessage } from '@wardline/contract'
import { keyPairOf } from '../ed25519.ts'
import type { Secrets } from '../secrets.ts'
import { signControl, type UnsignedControl } from './control-signature.ts'
import { createMac, type Mac } from './signed-event.ts'

/** One signature per instance, up to the default maximum of instances: about 60 MB when all of them poll. */
const maxKept = 100_000

/** Text that agents verify. Only the reason may contain line feeds, and the fields around it cannot. */
function signedText({ instance_id, action, reason = '', version, issued_at }: UnsignedControl): string {
  return `wardline-control-v1\n${instance_id}\n${action}\n${reason}\n${version}\n${issued_at}\n`
}

/**
 * Signs control messages twice: with HMAC for the processes of this deployment, and with Ed25519 (RFC 8032) for agents,
 * which have only the public key. Every process derives the same key pair and Ed25519 is deterministic, so all of them
 * produce the same signature for the same state.
 */
export class ControlSigner {
  readonly #mac: Mac
  readonly #privateKey: KeyObject
  readonly #kept = new Map<string, { text: string; signature: string }>()
  /** Number of Ed25519 control signatures computed so far. */
  computed = 0
  readonly keys: Pick<ControlKeys, 'keys'>

  constructor({ controlKey, controlSeed }: Pick<Secrets, 'controlKey' | 'controlSeed'>) {
    this.#mac = createMac(controlKey)
    const { privateKey, x, kid } = keyPairOf(controlSeed)
    this.#privateKey = privateKey
    this.keys = { keys: [{ kty: 'OKP', crv: 'Ed25519', x, kid, use: 'sig', alg: 'EdDSA' }] }
  }

  /** Returns the message with both signatures. */
  sign(message: UnsignedControl): ControlMessage {
    const signature = signControl(message, this.#mac)
    return { ...message, signature, signature_ed25519: this.agentSignature(message) }
  }

  /** Signs a drill for agents. Its text starts with a different line, so it cannot pass for a control message. */
  signDrill(message: Omit<DrillMessage, 'action' | 'signature_ed25519'>): DrillMessage {
    const { instance_id, nonce, issued_at } = message
    const text = Buffer.from(`wardline-drill-v1\n${instance_id}\n${nonce}\n${issued_at}\n`)
    const signature = sign(null, text, this.#privateKey).toString('base64url')
    return { action: 'drill', instance_id, nonce, issued_at, signature_ed25519: signature }
  }

  /** Signs the policies of an instance. `body` is JSON, in one line. */
  signPolicySet({ instance_id, version, body }: Omit<DeliveredPolicy, 'signature_ed25519'>): string {
    const text = Buffer.from(`wardline-policy-v1\n${instance_id}\n${version}\n${body}\n`)
    return sign(null, text, this.#privateKey).toString('base64url')
  }

  /** Returns the Ed25519 signature, base64url. It is cached until the instance's control state changes. */
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
