import type { Hex } from 'viem'
import {
  decodeAbiParameters,
  decodeFunctionResult,
  encodeAbiParameters,
  encodeFunctionData,
  encodePacked,
  keccak256,
  parseAbi,
  parseAbiParameters,
} from 'viem/utils'
import type { AttestationSink, SubmittedRecord } from './attestation-sink.ts'
import { type BlockRange, isSameHex, type Rpc, RpcError } from './rpc.ts'

/**
 * The hash comes first because readers compare it with the published one. Changing this text makes it a different
 * schema.
 */
export const schemaText = 'bytes32 hash,string namespace,string tag,uint8 score,string period'
export const noAddress: Hex = `0x${'0'.repeat(40)}`
export const noUid: Hex = `0x${'0'.repeat(64)}`
const schemaFields = parseAbiParameters(schemaText)

/** Computed like the registry does, so that no call is needed. */
export const schemaUid = keccak256(encodePacked(['string', 'address', 'bool'], [schemaText, noAddress, true])) as string

/** Returns the data of an attestation in this schema. */
export const dataOf = ({ hash, namespace, tag, score, period }: SubmittedRecord): Hex =>
  encodeAbiParameters(schemaFields, [hash as Hex, namespace, tag, score, period])

const easAbi = parseAbi([
  'struct AttestationRequestData { address recipient; uint64 expirationTime; bool revocable; bytes32 refUID; bytes data; uint256 value; }',
  'struct AttestationRequest { bytes32 schema; AttestationRequestData data; }',
  'struct RevocationRequestData { bytes32 uid; uint256 value; }',
  'struct RevocationRequest { bytes32 schema; RevocationRequestData data; }',
  'struct Attestation { bytes32 uid; bytes32 schema; uint64 time; uint64 expirationTime; uint64 revocationTime; bytes32 refUID; address recipient; address attester; bool revocable; bytes data; }',
  'function attest(AttestationRequest request) payable returns (bytes32)',
  'function revoke(RevocationRequest request) payable',
  'function getAttestation(bytes32 uid) view returns (Attestation)',
])

const registryAbi = parseAbi([
  'struct SchemaRecord { bytes32 uid; address resolver; bool revocable; string schema; }',
  'function register(string schema, address resolver, bool revocable) returns (bytes32)',
  'function getSchema(bytes32 uid) view returns (SchemaRecord)',
])

/** Attested(address indexed recipient, address indexed attester, bytes32 uid, bytes32 indexed schemaUID) */
const attestedTopic = '0x8bf46bf4cfd674fa735a3d63ec1c9ad4153f033c290341f3a588b75685141b35'

const addressOf = (topic: string | undefined) => `0x${topic?.slice(26)}`

/** A contract can return any bytes. Throws RpcError `wrong` when they do not match the interface. */
function reading<Result>(what: string, read: () => Result): Result {
  try {
    return read()
  } catch {
    throw new RpcError(`${what} returned data of another format than its interface.`, 'wrong')
  }
}

/** Reads an attestation; undefined when EAS has none with this uid. Default: at the latest block. */
async function readAttestation(rpc: Rpc, eas: string, uid: string, block?: number) {
  const functionName = 'getAttestation'
  const answer = await rpc.call(eas, encodeFunctionData({ abi: easAbi, functionName, args: [uid as Hex] }), block)
  const found = reading('EAS', () => decodeFunctionResult({ abi: easAbi, functionName, data: answer as Hex }))
  return isSameHex(found.uid, uid) ? found : undefined
}

/** The last second that has a date of four digits. */
const maxTime = 253_402_300_799n
const timeOf = (seconds: bigint): number => Number(seconds < maxTime ? seconds : maxTime) * 1000

/** The fields of this service's schema; undefined when the data has others. */
function fieldsOf(schema: string, data: Hex) {
  if (!isSameHex(schema, schemaUid)) return undefined
  try {
    const [hash, namespace, tag, score, period] = decodeAbiParameters(schemaFields, data)
    return { hash: hash as string, namespace, tag, score, period }
  } catch {
    return undefined
  }
}

/** Uids of attestations about the recipient by the attester, with their transactions, oldest first. */
export async function findAttestations(
  rpc: Rpc,
  { eas, recipient, attester }: { eas: string; recipient: string; attester: string },
  range: BlockRange,
) {
  const topics = [attestedTopic, ...[recipient, attester].map((account) => `0x${account.slice(2).padStart(64, '0')}`)]
  const logs = await rpc.logs(eas, topics, range)
  return logs.map(({ data, transactionHash: txHash }) => {
    if (data.length !== 66) throw new RpcError('EAS logged data of another format than its interface.', 'wrong')
    return { uid: data.toLowerCase(), txHash }
  })
}

/**
 * Reads what the attester states about the recipient at a block; undefined when it is revoked or of others. An expired
 * one has its time.
 */
export async function readAbout(
  rpc: Rpc,
  { eas, recipient, attester }: { eas: string; recipient: string; attester: string },
  uid: string,
  block: number,
) {
  const found = await readAttestation(rpc, eas, uid, block)
  const isAsked = isSameHex(found?.attester, attester) && isSameHex(found?.recipient, recipient)
  if (!found || !isAsked || found.revocationTime !== 0n) return undefined
  return {
    at: timeOf(found.time),
    expiresAt: found.expirationTime === 0n ? null : timeOf(found.expirationTime),
    schema: found.schema as string,
    fields: fieldsOf(found.schema, found.data),
  }
}

/** Returns the transaction that registers the schema. */
export const registerSchema = (registry: string) => ({
  target: registry,
  data: encodeFunctionData({ abi: registryAbi, functionName: 'register', args: [schemaText, noAddress, true] }),
})

export async function isSchemaRegistered(rpc: Rpc, registry: string): Promise<boolean> {
  const args = [schemaUid as Hex] as const
  const data = encodeFunctionData({ abi: registryAbi, functionName: 'getSchema', args })
  const answer = await rpc.call(registry, data)
  return reading('The schema registry', () => {
    const { uid } = decodeFunctionResult({ abi: registryAbi, functionName: 'getSchema', data: answer as Hex })
    return isSameHex(uid, schemaUid)
  })
}

/** Attestation sink for EAS (https://docs.attest.org), with this account as the attester. */
export function createEas(eas: string, attester: string): AttestationSink {
  return {
    write(record) {
      const data = dataOf(record)
      const request = {
        schema: schemaUid as Hex,
        data: { recipient: attester as Hex, expirationTime: 0n, revocable: true, refUID: noUid, data, value: 0n },
      }
      return { target: eas, data: encodeFunctionData({ abi: easAbi, functionName: 'attest', args: [request] }) }
    },

    uidOf: (logs) =>
      logs.find(
        ({ address, topics, data }) =>
          isSameHex(address, eas) &&
          isSameHex(topics[0], attestedTopic) &&
          isSameHex(addressOf(topics[2]), attester) &&
          isSameHex(topics[3], schemaUid) &&
          data.length === 66,
      )?.data,

    revoke(uid) {
      const request = { schema: schemaUid as Hex, data: { uid: uid as Hex, value: 0n } }
      return { target: eas, data: encodeFunctionData({ abi: easAbi, functionName: 'revoke', args: [request] }) }
    },

    async state(rpc, { uid, hash }) {
      const found = await readAttestation(rpc, eas, uid)
      if (!found || !isSameHex(found.schema, schemaUid) || !isSameHex(found.attester, attester)) return undefined
      const [stored] = reading('EAS', () => decodeAbiParameters(schemaFields, found.data))
      if (!isSameHex(stored, hash)) return undefined
      return { isRevoked: found.revocationTime !== 0n, isBare: false }
    },
  }
}
