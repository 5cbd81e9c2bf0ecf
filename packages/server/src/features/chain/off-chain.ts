import { isDeepStrictEqual } from 'node:util'
import type { SignedAttestation } from '@wardline/contract'
import type { Hex, TypedDataDefinition } from 'viem'
import { encodePacked, getAddress, keccak256, recoverTypedDataAddress, stringToHex } from 'viem/utils'
import type { Config } from '../../config/config.ts'
import { knownEas } from '../../config/known-chains.ts'
import { createEgress } from '../../egress/open-egress.ts'
import type { Secrets } from '../../secrets.ts'
import { deploymentAccount, type Signer } from '../../wallet.ts'
import type { SubmittedRecord } from './attestation-sink.ts'
import { dataOf, noAddress, noUid, schemaUid } from './eas.ts'
import { isSameHex, rpcDeadlineMs } from './rpc.ts'
import { openSigner } from './signer.ts'

/** EAS of a chain, as a signature names it. */
interface Domain {
  chainId: number
  contract: string
  version: string
}

/** Readers do not compare the version, so the latest one stands for those that are not known. */
const latestVersion = '1.4.0'
/** Stands for chains without a known EAS. */
const ethereum = 1

/** Returns the EAS of TRUST_CHAIN_ID, else that of Ethereum: a signature needs one, but no node. */
export function domainOf({ trustEas, trustChainId }: Pick<Config, 'trustEas' | 'trustChainId'>): Domain {
  const known = knownEas(trustChainId)
  if (trustEas !== undefined && !isSameHex(known?.[0], trustEas))
    return { chainId: trustChainId, contract: trustEas, version: latestVersion }
  const [contract, , version] = known ?? knownEas(ethereum)!
  return { chainId: known ? trustChainId : ethereum, contract, version }
}

/** Version 2 of off-chain attestations: https://github.com/ethereum-attestation-service/eas-sdk */
const types = {
  Attest: [
    { name: 'version', type: 'uint16' },
    { name: 'schema', type: 'bytes32' },
    { name: 'recipient', type: 'address' },
    { name: 'time', type: 'uint64' },
    { name: 'expirationTime', type: 'uint64' },
    { name: 'revocable', type: 'bool' },
    { name: 'refUID', type: 'bytes32' },
    { name: 'data', type: 'bytes' },
    { name: 'salt', type: 'bytes32' },
  ],
}
const domainType = [
  { name: 'name', type: 'string' },
  { name: 'version', type: 'string' },
  { name: 'chainId', type: 'uint256' },
  { name: 'verifyingContract', type: 'address' },
]

type Unsigned = Omit<SignedAttestation['sig'], 'signature'>

/**
 * Returns the uid as the SDK of EAS computes it: the schema counts as text, the sender and the bump of attestations on a
 * chain are zero.
 */
function uidOf({ schema, recipient, time, expirationTime, revocable, refUID, data, salt }: Unsigned['message']): Hex {
  return keccak256(
    encodePacked(
      ['uint16', 'bytes', 'address', 'address', 'uint64', 'uint64', 'bool', 'bytes32', 'bytes', 'bytes32', 'uint32'],
      [
        ...([2, stringToHex(schema), recipient as Hex, noAddress, BigInt(time), BigInt(expirationTime)] as const),
        ...([revocable, refUID as Hex, data as Hex, salt as Hex, 0] as const),
      ],
    ),
  )
}

/**
 * Returns what is signed for a record. All of it follows from the record, signer and domain, so that readers compare it
 * whole. The contents are public: the salt, which hides others from guesses, is their hash.
 */
function unsigned(record: SubmittedRecord, signer: string, { chainId, contract, version }: Domain): Unsigned {
  const message: Unsigned['message'] = {
    version: 2,
    schema: schemaUid,
    recipient: getAddress(signer),
    time: Math.floor(record.at / 1000),
    expirationTime: 0,
    revocable: true,
    refUID: noUid,
    data: dataOf(record),
    salt: record.hash,
  }
  return {
    version: 2,
    uid: uidOf(message),
    // Readers compare the address as text, with its checksum.
    domain: { name: 'EAS Attestation', version, chainId, verifyingContract: getAddress(contract) },
    primaryType: 'Attest',
    types,
    message,
  }
}

const typedData = ({ domain, primaryType, message }: Unsigned): TypedDataDefinition => ({
  domain: { ...domain, verifyingContract: domain.verifyingContract as Hex },
  primaryType,
  types: { EIP712Domain: domainType, ...types },
  message,
})

export async function signAttestation(
  record: SubmittedRecord,
  signer: Pick<Signer, 'address' | 'signTypedData'>,
  domain: Domain,
): Promise<SignedAttestation> {
  const content = unsigned(record, signer.address, domain)
  const signed = await signer.signTypedData(typedData(content))
  const signature = {
    v: Number(`0x${signed.slice(130)}`) as 27 | 28,
    r: signed.slice(0, 66),
    s: `0x${signed.slice(66, 130)}`,
  }
  return { sig: { ...content, signature }, signer: getAddress(signer.address) }
}

/**
 * Signs attestations by the configured wallet, else by the key that the deployment derives from its master secret. Throws
 * RpcError while an external signer is away, ConfigError for a wrong key file.
 */
export async function signAttestations<Record extends SubmittedRecord>(
  { config, secrets }: { config: Config; secrets: Pick<Secrets, 'attestationKey'> },
  records: readonly Record[],
  stopping?: AbortSignal,
): Promise<(Record & { uid: string; signed: string })[]> {
  const egress = createEgress({ guarded: false, allow: [], deadlineMs: rpcDeadlineMs })
  try {
    const signer = (await openSigner(config, egress, stopping)) ?? deploymentAccount(secrets)
    const done: (Record & { uid: string; signed: string })[] = []
    for (const record of records) {
      const file = await signAttestation(record, signer, domainOf(config))
      done.push({ ...record, uid: file.sig.uid, signed: JSON.stringify(file) })
    }
    return done
  } finally {
    egress.close()
  }
}

/** Undefined for a record of others that has no signature, such as one whose hash is no hash, or whose time is none. */
function unsignedIfAny(...given: Parameters<typeof unsigned>): Unsigned | undefined {
  try {
    return unsigned(...given)
  } catch {
    return undefined
  }
}

/** What a reader knows of an off-chain attestation without trusting its file. */
interface Expected {
  uid: string
  signer: string
  chainId: number
  contract: string
}

/** Returns why the file is not this record signed by the expected address; undefined if it is. Needs no node. */
export async function offChainFault(
  { sig, signer }: SignedAttestation,
  record: SubmittedRecord,
  expected: Expected,
): Promise<string | undefined> {
  const { signature, ...content } = sig
  const { version, chainId, verifyingContract } = sig.domain
  if (!isSameHex(signer, expected.signer)) return `it is signed by ${signer}, not by ${expected.signer}`
  if (chainId !== expected.chainId || !isSameHex(verifyingContract, expected.contract))
    return `its domain is ${verifyingContract} on chain ${chainId}, not ${expected.contract} on chain ${expected.chainId}`
  if (!isSameHex(sig.uid, expected.uid)) return `its uid is ${sig.uid}, not ${expected.uid}`
  const computed = unsignedIfAny(record, signer, { chainId, contract: verifyingContract, version })
  if (!computed || !isDeepStrictEqual(content, computed)) return 'what is signed is not what is published'
  const text: Hex = `0x${signature.r.slice(2)}${signature.s.slice(2)}${signature.v.toString(16)}`
  const recovered = await recoverTypedDataAddress({ ...typedData(computed), signature: text }).catch(() => undefined)
  return isSameHex(recovered, signer) ? undefined : `its signature is not by ${signer}`
}
