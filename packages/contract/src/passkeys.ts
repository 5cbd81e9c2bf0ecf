import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { nullable, Ok, Pattern, Timestamp } from './fields.ts'
import { SessionCreated } from './keys.ts'
import { Type } from './type.ts'

export const passkeyLimits = {
  /** Passkeys at once: a small team with two devices each. Larger ones have a provider. */
  passkeys: 10,
  name: 60,
  /** Characters of a credential id, of at most 1023 bytes (WebAuthn Level 3, section 4). */
  credentialId: 1_364,
  /** Characters of what the browser signs, of which an origin and a challenge are the most. */
  clientData: 4_096,
  /** Characters of a new credential: an RSA key and a signature have some 1,000. */
  attestation: 16_384,
  signature: 2_048,
} as const

const PasskeyId = Pattern('^passkey-[0-9a-z]{16}$', 'must be the id of a passkey', {
  description: 'Stands wherever the id of a key stands, such as in the audit log',
})

const Passkey = Type.Object({
  id: PasskeyId,
  name: Type.String(),
  created_at: Timestamp,
  last_used_at: nullable({ ...Timestamp, description: 'When it last signed in or confirmed; null: never' }),
})
export type Passkey = Static<typeof Passkey>

const bytes = (maxLength: number, description: string) =>
  Pattern('^[A-Za-z0-9_-]*$', 'must be base64url', { minLength: 1, maxLength, description })

const CredentialId = bytes(passkeyLimits.credentialId, 'Id of the credential')
const ClientData = bytes(passkeyLimits.clientData, 'What the browser says of the request')
const asJson = 'PublicKeyCredential.toJSON() of the browser; other fields of it are ignored'

const NewCredential = Type.Object(
  {
    id: CredentialId,
    response: Type.Object({
      clientDataJSON: ClientData,
      attestationObject: bytes(passkeyLimits.attestation, 'The public key, without an attestation of the device'),
    }),
  },
  { description: asJson },
)
export type NewCredential = Static<typeof NewCredential>

const Assertion = Type.Object(
  {
    id: CredentialId,
    response: Type.Object({
      clientDataJSON: ClientData,
      authenticatorData: bytes(passkeyLimits.clientData, 'What the authenticator says'),
      signature: bytes(passkeyLimits.signature, 'Signature of both'),
    }),
  },
  { description: asJson },
)
export type Assertion = Static<typeof Assertion>

const Secret = Type.String({
  description:
    'Belongs to this attempt, which works once and within 5 minutes: keep it in the page, and finish with it',
})
const SentSecret = Pattern('^v1\\.[A-Za-z0-9_-]{1,2000}$', 'must be the secret of the attempt')

const Credentials = Type.Array(Type.Object({ type: Type.Literal('public-key'), id: Type.String() }))

/** Options in the JSON of WebAuthn Level 3, section 5.1.9. */
const CreationStarted = Type.Object({
  options: Type.Object(
    {
      rp: Type.Object({ id: Type.String(), name: Type.String() }),
      user: Type.Object({ id: Type.String(), name: Type.String(), displayName: Type.String() }),
      challenge: Type.String(),
      pubKeyCredParams: Type.Array(Type.Object({ type: Type.Literal('public-key'), alg: Type.Integer() })),
      timeout: Type.Integer(),
      excludeCredentials: Credentials,
      authenticatorSelection: Type.Object({
        residentKey: Type.Literal('required'),
        requireResidentKey: Type.Literal(true),
        userVerification: Type.Literal('required'),
      }),
      attestation: Type.Literal('none'),
    },
    { description: 'For PublicKeyCredential.parseCreationOptionsFromJSON' },
  ),
  secret: Secret,
})

const AssertionStarted = Type.Object({
  options: Type.Object(
    {
      challenge: Type.String(),
      rpId: Type.String(),
      timeout: Type.Integer(),
      userVerification: Type.Literal('required'),
      allowCredentials: Credentials,
    },
    { description: 'For PublicKeyCredential.parseRequestOptionsFromJSON' },
  ),
  secret: Secret,
})

const AssertionSent = Type.Object({ secret: SentSecret, credential: Assertion }, { additionalProperties: false })

const notHere = 'Passkeys cannot be used at this address'
const fromOtherSite = 'No page of the service sent it'
const notAccepted = 'The attempt was used, has expired or began elsewhere; or the passkey is not accepted'
const tooMany = 'Too many attempts from this address; retry after Retry-After seconds'

export const passkeyEndpoints = {
  listPasskeys: define({
    method: 'GET',
    path: '/api/passkeys',
    access: access.admins,
    feature: 'people',
    summary: 'List the passkeys of the local admin',
    status: 200,
    reply: Type.Object({
      passkeys: Type.Array(Passkey),
      unavailable: nullable(Type.String({ description: 'Why the caller cannot register one here; null: they can' })),
    }),
  }),
  startPasskey: define({
    method: 'POST',
    path: '/api/passkeys/start',
    access: access.admins,
    feature: 'people',
    summary: 'Begin to register a passkey, in a browser session of the local admin that was confirmed within 5 minutes',
    body: Type.Object(
      {
        name: Pattern('^[^\\x00-\\x1f\\x7f]*[^\\s\\x00-\\x1f\\x7f][^\\x00-\\x1f\\x7f]*$', 'must be one line of text', {
          maxLength: passkeyLimits.name,
          description: 'Names the passkey, such as in the audit log',
        }),
      },
      { additionalProperties: false },
    ),
    status: 201,
    reply: CreationStarted,
    failures: {
      401: 'The session has to be confirmed',
      409: `${notHere}, or there are ${passkeyLimits.passkeys}`,
    },
  }),
  addPasskey: define({
    method: 'POST',
    path: '/api/passkeys',
    access: access.admins,
    feature: 'people',
    summary: 'Register the passkey that the browser made',
    body: Type.Object({ secret: SentSecret, credential: NewCredential }, { additionalProperties: false }),
    status: 201,
    reply: Passkey,
    failures: { 401: notAccepted, 409: notHere },
  }),
  removePasskey: define({
    method: 'DELETE',
    path: '/api/passkeys/:id',
    access: access.admins,
    feature: 'people',
    summary: 'Remove a passkey, and end its sessions and their streams',
    params: Type.Object({ id: PasskeyId }),
    status: 200,
    reply: Ok,
    failures: { 403: 'A command line that was logged in sent it', 404: 'Unknown passkey' },
  }),
  startPasskeySignIn: define({
    method: 'POST',
    path: '/api/sign-in/passkey/start',
    access: 'open',
    feature: 'people',
    summary: 'Begin to sign in with a passkey',
    status: 201,
    reply: AssertionStarted,
    failures: { 403: fromOtherSite, 409: `${notHere}, or there is none`, 429: tooMany },
  }),
  finishPasskeySignIn: define({
    method: 'POST',
    path: '/api/sign-in/passkey/finish',
    access: 'open',
    feature: 'people',
    summary: 'Exchange the answer of a passkey for a browser session of the local admin, once',
    body: AssertionSent,
    status: 201,
    reply: SessionCreated,
    failures: { 401: notAccepted, 403: fromOtherSite, 409: notHere, 429: tooMany },
  }),
  startConfirmation: define({
    method: 'POST',
    path: '/api/session/confirm/start',
    access: access.admins,
    feature: 'people',
    summary: 'Begin to confirm the browser session of the local admin by a passkey',
    status: 201,
    reply: AssertionStarted,
    failures: { 400: 'The caller has no browser session of the local admin', 409: `${notHere}, or there is none` },
  }),
  confirmSession: define({
    method: 'POST',
    path: '/api/session/confirm',
    access: access.admins,
    feature: 'people',
    summary: 'Confirm the browser session: for 5 minutes, changes that matter need no further confirmation',
    body: AssertionSent,
    status: 200,
    reply: Ok,
    failures: { 401: notAccepted, 409: notHere },
  }),
}
