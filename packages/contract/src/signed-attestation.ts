import type { Static } from 'typebox'
import { Pattern } from './fields.ts'
import { Type } from './type.ts'

const Hash = Pattern('^0x[0-9a-f]{64}$', 'must be 0x and 64 hexadecimal digits in lower case')
const Address = Pattern('^0x[0-9a-fA-F]{40}$', 'must be 0x and 40 hexadecimal digits')
/** Seconds that a number of JSON represents exactly. */
const Seconds = Type.Integer({ minimum: 0 })

export const AttestationUid = Hash

/**
 * An off-chain attestation in the form that the tools of EAS read: signed typed data (EIP-712) of version 2
 * (https://docs.attest.org). Limits are those of an attestation of this service, because others' files are read too.
 */
export const SignedAttestation = Type.Object(
  {
    sig: Type.Object({
      version: Type.Literal(2),
      uid: Hash,
      domain: Type.Object({
        name: Type.Literal('EAS Attestation'),
        version: Type.String({ maxLength: 40 }),
        chainId: Type.Integer({ minimum: 1 }),
        verifyingContract: Address,
      }),
      primaryType: Type.Literal('Attest'),
      types: Type.Object({
        Attest: Type.Array(
          Type.Object({ name: Type.String({ maxLength: 40 }), type: Type.String({ maxLength: 40 }) }),
          { maxItems: 9 },
        ),
      }),
      message: Type.Object({
        version: Type.Literal(2),
        schema: Hash,
        recipient: Address,
        time: Seconds,
        expirationTime: Seconds,
        revocable: Type.Boolean(),
        refUID: Hash,
        data: Pattern('^0x([0-9a-f]{2})*$', 'must be 0x and bytes as hexadecimal digits in lower case', {
          maxLength: 2_000,
        }),
        salt: Hash,
      }),
      signature: Type.Object({ v: Type.Union([Type.Literal(27), Type.Literal(28)]), r: Hash, s: Hash }),
    }),
    signer: Address,
  },
  { description: 'Signed off-chain attestation, as tools of EAS read it' },
)
export type SignedAttestation = Static<typeof SignedAttestation>
