import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import type { Assertion, NewCredential } from '@wardline/contract'

type Value = number | string | Buffer | Map<number | string, Value>

function head(kind: number, count: number): Buffer {
  if (count < 24) return Buffer.from([(kind << 5) | count])
  if (count < 256) return Buffer.from([(kind << 5) | 24, count])
  return Buffer.from([(kind << 5) | 25, count >> 8, count & 255])
}

/** Encodes what WebAuthn needs of CBOR (RFC 8949). */
function cbor(value: Value): Buffer {
  if (typeof value === 'number') return value < 0 ? head(1, -1 - value) : head(0, value)
  if (typeof value === 'string') return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)])
  if (Buffer.isBuffer(value)) return Buffer.concat([head(2, value.length), value])
  const entries = [...value].flatMap(([name, item]) => [cbor(name), cbor(item)])
  return Buffer.concat([head(5, value.size), ...entries])
}

const sha256 = (content: Buffer | string) => createHash('sha256').update(content).digest()

const flags = { present: 0x01, verified: 0x04, attested: 0x40 }

/** What an authenticator, or the page that asks it, does differently from what it should. */
export interface Deviation {
  origin?: string
  rpId?: string
  /** The person is not asked for a finger or PIN. */
  isUnverified?: boolean
  counter?: number
  type?: string
  crossOrigin?: boolean
  /** Another format of attestation, with a chain of certificates. */
  certificates?: true
}

/** An authenticator with one passkey, as a browser at this origin uses it. */
export class TestAuthenticator {
  readonly #origin: string
  readonly #id = randomBytes(32)
  readonly #privateKey: KeyObject
  readonly #publicKey: Buffer
  /** 0: it counts no signatures, as those that synchronize passkeys. */
  #counter: number

  constructor(origin: string, counter = 0) {
    this.#origin = origin
    this.#counter = counter
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    this.#privateKey = privateKey
    const { x, y } = publicKey.export({ format: 'jwk' })
    const fields: [number, Value][] = [
      [1, 2],
      [3, -7],
      [-1, 1],
      [-2, Buffer.from(x!, 'base64url')],
      [-3, Buffer.from(y!, 'base64url')],
    ]
    this.#publicKey = cbor(new Map(fields))
  }

  get id(): string {
    return this.#id.toString('base64url')
  }

  #clientData(type: string, challenge: string, deviation: Deviation): Buffer {
    const { origin = this.#origin, crossOrigin = false } = deviation
    return Buffer.from(JSON.stringify({ type: deviation.type ?? type, challenge, origin, crossOrigin }))
  }

  #data(
    { rpId = new URL(this.#origin).hostname, isUnverified, counter }: Deviation,
    attested = Buffer.alloc(0),
  ): Buffer {
    const count = Buffer.alloc(4)
    count.writeUInt32BE(counter ?? this.#counter)
    const flag = flags.present | (isUnverified ? 0 : flags.verified) | (attested.length > 0 ? flags.attested : 0)
    return Buffer.concat([sha256(rpId), Buffer.from([flag]), count, attested])
  }

  create({ challenge }: { challenge: string }, deviation: Deviation = {}): NewCredential {
    const length = Buffer.from([0, this.#id.length])
    const attested = Buffer.concat([Buffer.alloc(16), length, this.#id, this.#publicKey])
    const statement = new Map<string, Value>(deviation.certificates ? [['x5c', Buffer.from('certificate')]] : [])
    const attestation = new Map<string, Value>([
      ['fmt', deviation.certificates ? 'packed' : 'none'],
      ['attStmt', statement],
      ['authData', this.#data(deviation, attested)],
    ])
    return {
      id: this.id,
      response: {
        clientDataJSON: this.#clientData('webauthn.create', challenge, deviation).toString('base64url'),
        attestationObject: cbor(attestation).toString('base64url'),
      },
    }
  }

  get({ challenge }: { challenge: string }, deviation: Deviation = {}): Assertion {
    if (this.#counter > 0) this.#counter += 1
    const clientData = this.#clientData('webauthn.get', challenge, deviation)
    const data = this.#data(deviation)
    const signature = sign('sha256', Buffer.concat([data, sha256(clientData)]), this.#privateKey)
    return {
      id: this.id,
      response: {
        clientDataJSON: clientData.toString('base64url'),
        authenticatorData: data.toString('base64url'),
        signature: signature.toString('base64url'),
      },
    }
  }
}
