import type { Assertion, NewCredential } from '@wardline/contract'
import type { PasskeyRow } from '../people/passkey-statements.ts'
import type { Site } from './passkey-site.ts'

/** Algorithms of COSE (RFC 9053) that every authenticator has one of: Ed25519, ECDSA with P-256, RSA. */
export const algorithms = [-8, -7, -257]

const type = 'public-key' as const

/** Loaded when a passkey is first used: 28 MB of memory, and parsers of certificates that are not needed otherwise. */
const load = () => Promise.all([import('@simplewebauthn/server'), import('@simplewebauthn/server/helpers')])

/** Refuses what a page of another origin asked for through a frame: the library accepts it without `topOrigin`. */
function assertOwnPage(clientData: string): void {
  if (JSON.parse(Buffer.from(clientData, 'base64url').toString('utf8')).crossOrigin === true) {
    throw new Error('the answer was made in a frame of another origin')
  }
}

interface Expected {
  challenge: string
  site: Site
}

/** Verifies a new credential. Rejects with an Error, whose message may quote the answer. */
export async function verifyNew(
  { id, response }: NewCredential,
  { challenge, site }: Expected,
): Promise<Pick<PasskeyRow, 'credential_id' | 'public_key' | 'counter'>> {
  const [{ verifyRegistrationResponse }, { decodeAttestationObject }] = await load()
  assertOwnPage(response.clientDataJSON)
  const attestation = decodeAttestationObject(Buffer.from(response.attestationObject, 'base64url'))
  // No attestation was asked for, and certificates in one would lead the service to addresses that they name.
  const hasCertificates = attestation.get('attStmt').get('x5c') !== undefined
  if (hasCertificates || !['none', 'packed'].includes(attestation.get('fmt'))) {
    throw new Error('the credential has an attestation')
  }
  const { verified, registrationInfo } = await verifyRegistrationResponse({
    response: { id, rawId: id, type, response, clientExtensionResults: {} },
    expectedChallenge: challenge,
    expectedOrigin: site.origin,
    expectedRPID: site.rpId,
    requireUserVerification: true,
    supportedAlgorithmIDs: algorithms,
  })
  if (!verified) throw new Error('the credential is not valid')
  const { credential } = registrationInfo
  if (credential.id !== id) throw new Error('the credential has another id')
  const { counter, publicKey } = credential
  return { credential_id: id, public_key: Buffer.from(publicKey).toString('base64url'), counter }
}

/** Verifies what a passkey signed. Resolves with its counter. Rejects with an Error, whose message may quote the answer. */
export async function verifySigned(
  { id, response }: Assertion,
  passkey: Pick<PasskeyRow, 'credential_id' | 'public_key' | 'counter'>,
  { challenge, site }: Expected,
): Promise<number> {
  const [{ verifyAuthenticationResponse }] = await load()
  assertOwnPage(response.clientDataJSON)
  const { verified, authenticationInfo } = await verifyAuthenticationResponse({
    response: { id, rawId: id, type, response, clientExtensionResults: {} },
    expectedChallenge: challenge,
    expectedOrigin: site.origin,
    expectedRPID: site.rpId,
    requireUserVerification: true,
    // The counter is compared below, once the signature is known to be that of the passkey.
    credential: { id: passkey.credential_id, publicKey: Buffer.from(passkey.public_key, 'base64url'), counter: 0 },
  })
  if (!verified) throw new Error('the signature is not valid')
  const { newCounter } = authenticationInfo
  if ((newCounter > 0 || passkey.counter > 0) && newCounter <= passkey.counter) {
    throw new Error('the counter of the passkey went back: it may have been copied')
  }
  return newCounter
}
