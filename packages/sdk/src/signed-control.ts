import { type Answer, isSuccess, noAnswer, unsigned } from './service.ts'
import { type ControlState, stateFromPoll, type Verify } from './wire.ts'

/** Loads `node:crypto` only where a key is set: that takes longer than the rest of a hook. */
export async function openVerifier(publicKey: string | undefined, instanceId: string): Promise<Verify | undefined> {
  if (publicKey === undefined) return undefined
  const { createPublicKey, verify } = await import('node:crypto')
  return ({ suspended, reason, version }, issuedAt, signature) => {
    // A line feed in it could pass for the end of the reason.
    if (typeof signature !== 'string' || !/^[\dTZ:.-]+$/.test(String(issuedAt))) return false
    const state = suspended ? `suspend\n${reason ?? ''}` : 'resume\n'
    const text = Buffer.from(`wardline-control-v1\n${instanceId}\n${state}\n${version}\n${issuedAt}\n`)
    return publicKey.split(',').some((x) => {
      try {
        const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: x.trim() }, format: 'jwk' })
        return verify(null, text, key, Buffer.from(signature, 'base64url'))
      } catch {
        return false
      }
    })
  }
}

/** The answer to a poll, or none where it must be signed and is not. `known` is the state that a 304 confirms. */
export function signedAnswer(answer: Answer, verify: Verify | undefined, known?: ControlState): Answer {
  if (!verify || !isSuccess(answer)) return answer
  const received = answer.status === 304 ? known : stateFromPoll(answer.body, answer.header('etag'))
  const header = answer.header('x-wardline-control') ?? ''
  const [, issuedAt, signature] = /^version=\d+; issued_at=(.+); signature=(.+)$/.exec(header) ?? []
  return received && verify(received, issuedAt, signature) ? answer : noAnswer(unsigned)
}
