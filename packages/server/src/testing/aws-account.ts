import { alphabets } from '../features/honeypots/decoy-random.ts'

/** The account number inside an AWS access key id, prefix included. */
export function awsAccountOf(keyId: string): number {
  let bits = 0n
  for (const character of keyId.slice(4)) bits = (bits << 5n) | BigInt(alphabets.base32.indexOf(character))
  return Number((bits >> 39n) & ((1n << 40n) - 1n))
}
