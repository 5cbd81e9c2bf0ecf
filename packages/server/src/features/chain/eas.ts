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
import { isSameHex, type Rpc, RpcError } from './rpc.ts'

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

    revoke({ uid }) {
      const request = { schema: schemaUid as Hex, data: { uid: uid as Hex, value: 0n } }
      return { target: eas, data: encodeFunctionData({ abi: easAbi, functionName: 'revoke', args: [request] }) }
    },

    async state(rpc, { uid, hash }) {
      const call = encodeFunctionData({ abi: easAbi, functionName: 'getAttestation', args: [uid as Hex] })
      const answer = await rpc.call(eas, call)
      return reading('EAS', () => {
        const found = decodeFunctionResult({ abi: easAbi, functionName: 'getAttestation', data: answer as Hex })
        if (!isSameHex(found.uid, uid) || !isSameHex(found.schema, schemaUid) || !isSameHex(found.attester, attester))
          return undefined
        const [stored] = decodeAbiParameters(schemaFields, found.data)
        if (!isSameHex(stored, hash)) return undefined
        return found.revocationTime === 0n ? ('valid' as const) : ('revoked' as const)
      })
    },
  }
}
