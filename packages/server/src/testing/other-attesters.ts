import type { Hex } from 'viem'
import { encodeAbiParameters, encodeFunctionData, parseAbi, parseAbiParameters } from 'viem/utils'
import { registerSchema, schemaText, schemaUid } from '../features/chain/eas.ts'
import { type ChainService, mine, otherAddress, testAddress, trust } from './chain.ts'
import type { TestService } from './service.ts'

/** Third account of every anvil. */
export const thirdAddress = '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC'
const zero: Hex = `0x${'0'.repeat(64)}`
export const hash: Hex = `0x${'ab'.repeat(32)}`

export const abi = parseAbi([
  'function register(string agentURI) returns (uint256)',
  'function transfer(uint256 agentId, address to)',
  'function giveFeedback(uint256 agentId, int128 value, uint8 valueDecimals, string tag1, string tag2, string endpoint, string feedbackURI, bytes32 feedbackHash)',
  'function revokeFeedback(uint256 agentId, uint64 feedbackIndex)',
  'struct AttestationRequestData { address recipient; uint64 expirationTime; bool revocable; bytes32 refUID; bytes data; uint256 value; }',
  'struct AttestationRequest { bytes32 schema; AttestationRequestData data; }',
  'struct RevocationRequestData { bytes32 uid; uint256 value; }',
  'struct RevocationRequest { bytes32 schema; RevocationRequestData data; }',
  'function attest(AttestationRequest request) payable returns (bytes32)',
  'function revoke(RevocationRequest request) payable',
])

export const send = (on: ChainService, from: string, to: string, data: string) =>
  on.chain.ask<string>('eth_sendTransaction', { from, to, data })

export async function give(on: ChainService, from: string, value: bigint, decimals: number, tag1: string, tag2 = '') {
  const args = [0n, value, decimals, tag1, tag2, 'https://agent.example', '', zero] as const
  await send(on, from, on.contracts.reputation, encodeFunctionData({ abi, functionName: 'giveFeedback', args }))
}

interface Attested {
  from?: string
  recipient?: string
  tag?: string
  score?: number
  expires?: number
  data?: Hex
}

export async function attest(
  on: ChainService,
  { from = otherAddress, recipient = testAddress, ...given }: Attested = {},
) {
  const { tag = 'audit', score = 87, expires = 0 } = given
  const ours = encodeAbiParameters(parseAbiParameters(schemaText), [hash, 'auditor.v1', tag, score, '2026-W03'])
  const request = { expirationTime: BigInt(expires), revocable: true, refUID: zero, value: 0n }
  const data = { ...request, recipient: recipient as Hex, data: given.data ?? ours }
  const args = [{ schema: schemaUid as Hex, data }] as const
  await send(on, from, on.contracts.eas, encodeFunctionData({ abi, functionName: 'attest', args }))
}

/** Opens a service whose wallet owns agent 0, and that shows what the second account of the chain attests. */
export async function openShowing(on: ChainService, env: Record<string, string> = {}): Promise<TestService> {
  await send(on, testAddress, on.contracts.identity, encodeFunctionData({ abi, functionName: 'register', args: [''] }))
  await send(on, testAddress, on.contracts.schemas, registerSchema(on.contracts.schemas).data)
  await mine(on.chain, 3)
  return on.open({ ...shown(on), ...env })
}
export const shown = (on: ChainService) => ({
  TRUST_AGENT_ID: '0',
  TRUST_REPUTATION_REGISTRY: on.contracts.reputation,
  TRUST_OTHER_ATTESTERS: otherAddress,
})

/** Runs the periodic work as often as in a bit more than an hour. */
export async function hour(service: TestService): Promise<void> {
  for (let turn = 0; turn < 7; turn++) {
    service.clock.advance(600_000)
    await service.services.chain!.run()
  }
}

export async function others(service: TestService) {
  const { attestations_by_others: found } = await trust(service)
  return found!
}
export const tagsOf = async (service: TestService) => (await others(service)).map(({ tag }) => tag)

export const warnings = (service: TestService) =>
  service.logged.filter((line) => line.includes('another account were not read'))
