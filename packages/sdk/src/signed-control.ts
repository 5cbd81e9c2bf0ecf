import { type Answer, isSuccess, noAnswer, unsigned } from './service.ts'
import { type ControlState, stateFromPoll, type Verify } from './wire.ts'

/** Whether the text was signed by one of the deployment's keys. */
export type VerifyText = (text: string, signature: unknown) => boolean

/** Loads `node:crypto` only if a key is set, because loading it takes longer than the rest of a hook. */
export async function openTextVerifier(publicKey: string | undefined): Promise<VerifyText | undefined> {
  if (publicKey === undefined) return undefined
  const { createPublicKey, verify } = await import('node:crypto')
  return (text, signature) =>
    typeof signature === 'string' &&
    publicKey.split(',').some((x) => {
      try {
        const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: x.trim() }, format: 'jwk' })
        return verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64url'))
      } catch {
        return false
      }
    })
}

/** Returns a verifier for kill switch states of one instance; undefined without a public key. */
export async function openVerifier(publicKey: string | undefined, instanceId: string): Promise<Verify | undefined> {
  const verify = await openTextVerifier(publicKey)
  if (!verify) return undefined
  return ({ suspended, reason, version }, issuedAt, signature) => {
    // A line feed in issued_at could pass for the end of the reason.
    if (!/^[\dTZ:.-]+$/.test(String(issuedAt))) return false
    const state = suspended ? `suspend\n${reason ?? ''}` : 'resume\n'
    return verify(`wardline-control-v1\n${instanceId}\n${state}\n${version}\n${issuedAt}\n`, signature)
  }
}

/**
 * Returns the answer to a poll, or no answer if its signature is required and invalid. `known` is the state that a 304
 * confirms.
 */
export function signedAnswer(answer: Answer, verify: Verify | undefined, known?: ControlState): Answer {
  if (!verify || !isSuccess(answer)) return answer
  const received = answer.status === 304 ? known : stateFromPoll(answer.body, answer.header('etag'))
  const header = answer.header('x-wardline-control') ?? ''
  const [, issuedAt, signature] = /^version=\d+; issued_at=(.+); signature=(.+)$/.exec(header) ?? []
  return received && verify(received, issuedAt, signature) ? answer : noAnswer(unsigned)
}
