import { decodeFunctionResult, encodeFunctionData, parseAbi } from 'viem/utils'
import { describe, expect, it } from 'vitest'
import { missingAnvil } from '../../../../../test-servers/anvil.ts'
import {
  type ChainService,
  mine,
  openChainService,
  otherAddress,
  testAddress,
  transactions,
  turn,
  withIdentity,
} from '../../testing/chain.ts'
import type { TestService } from '../../testing/service.ts'

const missing = missingAnvil()
if (missing !== undefined) console.warn(`${missing}: the URI of the identity is not tested`)

const abi = parseAbi([
  'function register(string agentURI) returns (uint256)',
  'function setAgentURI(uint256 agentId, string newURI)',
  'function setWallet(uint256 agentId, address wallet)',
  'function approve(address to, uint256 agentId)',
  'function setApprovalForAll(address operator, bool approved)',
  'function tokenURI(uint256 agentId) view returns (string)',
])

const tokenUri = async ({ chain, contracts }: ChainService, agentId = 0n) => {
  const data = encodeFunctionData({ abi, functionName: 'tokenURI', args: [agentId] })
  const answer = await chain.ask<`0x${string}`>('eth_call', { to: contracts.identity, data }, 'latest')
  return decodeFunctionResult({ abi, functionName: 'tokenURI', data: answer })
}
const fileIn = (uri: string) => JSON.parse(Buffer.from(uri.split('base64,')[1]!, 'base64').toString())

/** Calls the registry from another account. */
async function asOther({ chain, contracts }: ChainService, data: string): Promise<void> {
  await chain.ask('eth_sendTransaction', { from: otherAddress, to: contracts.identity, data, gas: '0x1c9c380' })
  await mine(chain, 1)
}
const registerWith = (uri: string) => encodeFunctionData({ abi, functionName: 'register', args: [uri] })

const wellKnown = (host: string) => `https://${host}.example/.well-known/agent-registration.json`
const at = (host: string) => ({ WARDLINE_PUBLIC_URL: `https://${host}.example` })

async function setUri({ chain }: ChainService, service: TestService) {
  const planned = await service.services.chain!.planUri()
  expect(await planned.send()).toBe(true)
  await turn(service)
  await mine(chain, 3)
  await turn(service)
  return planned
}
const changes = async (service: TestService) => (await transactions(service)).filter(({ kind }) => kind === 'set-uri')
const lastError = async (service: TestService) =>
  (await service.rows<{ last_error: string | null }>('select last_error from chain_senders'))[0]!.last_error
const storedUri = async (service: TestService) =>
  (await service.rows<{ uri: string | null }>('select uri from chain_identities'))[0]?.uri

describe.skipIf(missing !== undefined)('the URI of the identity', () => {
  it('gets the id of the agent into an embedded file after the registration', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    const chain = service.services.chain!
    await withIdentity(on, service)
    expect(fileIn(await tokenUri(on))).toMatchObject({ registrations: [] })
    expect((await chain.status()).newUri).toMatch(/^data:application\/json;base64,/)
    const { plan } = await setUri(on, service)
    expect(plan).toMatchObject({ from: testAddress, to: on.contracts.identity, agentId: '0' })
    expect(Number(plan.cost)).toBeGreaterThan(0)
    expect(fileIn(plan.before!)).toMatchObject({ registrations: [] })
    expect(fileIn(await tokenUri(on))).toEqual(plan.file)
    expect(plan.file.registrations).toEqual([{ agentId: 0, agentRegistry: `eip155:31337:${on.contracts.identity}` }])
    expect(await changes(service)).toMatchObject([{ state: 'confirmed', result: '0' }])
    expect((await chain.status()).newUri).toBeNull()
    await expect(chain.planUri()).rejects.toThrow(
      'Agent 0 has the URI that the configuration gives: there is nothing to change.',
    )
  })

  it('changes any number of times, also back', async () => {
    await using on = await openChainService()
    await using first = await on.open(at('one'))
    await withIdentity(on, first)
    expect(await first.services.chain!.newUri()).toBeUndefined()
    for (const host of ['two', 'one', 'two']) {
      await using service = await on.open(at(host), first)
      expect(await service.services.chain!.newUri()).toBe(wellKnown(host))
      await setUri(on, service)
      expect(await tokenUri(on)).toBe(wellKnown(host))
      expect(await storedUri(service)).toBe(wellKnown(host))
    }
    expect((await changes(first)).map(({ state }) => state)).toEqual(['confirmed', 'confirmed', 'confirmed'])
  })

  it('is changed by one command at a time, and the next one finds it', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    await withIdentity(on, service)
    const chain = service.services.chain!
    const plans = [await chain.planUri(), await chain.planUri()]
    const sent = await Promise.all(plans.map(({ send }) => send()))
    expect(sent.toSorted()).toEqual([false, true])
    expect(await chain.openUri()).toEqual({ subject: plans[sent.indexOf(true)]!.subject, higher: undefined })
    for (let round = 0; round < 2; round++) {
      await turn(service)
      await mine(on.chain, 3)
    }
    await turn(service)
    expect(await chain.openUri()).toBeUndefined()
    expect(await changes(service)).toMatchObject([{ state: 'confirmed' }])
  })

  it('is not changed without an identity, or by a wallet that neither owns it nor is approved', async () => {
    await using on = await openChainService()
    await using without = await on.open()
    await expect(without.services.chain!.planUri()).rejects.toThrow(
      'There is no identity to change: run `wardline chain register`, or set TRUST_AGENT_ID.',
    )
    await asOther(on, registerWith('ipfs://theirs'))
    await using service = await on.open({ TRUST_AGENT_ID: '0', ...at('one') })
    const refused = new RegExp(
      `^${testAddress} must not change agent 0, which belongs to ${otherAddress}: .*authorized`,
    )
    await expect(service.services.chain!.planUri()).rejects.toThrow(refused)
    // Being its wallet is not enough.
    await asOther(on, encodeFunctionData({ abi, functionName: 'setWallet', args: [0n, testAddress] }))
    await expect(service.services.chain!.planUri()).rejects.toThrow(refused)
    await using other = await on.open({ TRUST_AGENT_ID: '7' })
    await expect(other.services.chain!.planUri()).rejects.toThrow(
      'The registry has no agent 7: correct TRUST_AGENT_ID.',
    )
    await using wrong = await on.open({ TRUST_AGENT_ID: '0', TRUST_ERC8004_REGISTRY: on.contracts.eas })
    await expect(wrong.services.chain!.planUri()).rejects.toThrow(/is not an identity registry of ERC-8004/)
    expect(await transactions(service)).toEqual([])
  })

  it.each([
    ['the agent', encodeFunctionData({ abi, functionName: 'approve', args: [testAddress, 0n] })],
    ['all agents', encodeFunctionData({ abi, functionName: 'setApprovalForAll', args: [testAddress, true] })],
  ])('is changed by an operator of %s of another account', async (_what, approval) => {
    await using on = await openChainService()
    await asOther(on, registerWith('ipfs://theirs'))
    await asOther(on, approval)
    await using service = await on.open({ TRUST_AGENT_ID: '0', ...at('one') })
    const { plan } = await setUri(on, service)
    expect(plan.before).toBe('ipfs://theirs')
    expect(await tokenUri(on)).toBe(wellKnown('one'))
    // The agent is not ours, so its URI is not compared.
    expect(await service.services.chain!.newUri()).toBeUndefined()
  })
})

describe.skipIf(missing !== undefined)('a node that lies about the URI', () => {
  type Lie = (result: never, params: unknown[]) => unknown
  async function confirmThrough(method: string, lie: Lie) {
    const on = await openChainService()
    const service = await on.open(at('one'))
    await withIdentity(on, service)
    const moved = await on.open(at('two'), service)
    await (await moved.services.chain!.planUri()).send()
    await turn(moved)
    await mine(on.chain, 3)
    on.lies.answer = async (asked, params, truth) => {
      const { id, result } = JSON.parse(await truth())
      const changed = asked === method && result ? lie(result as never, params) : result
      const error =
        changed === 'pruned' ? { error: { code: -32000, message: 'missing trie node' } } : { result: changed }
      return { body: JSON.stringify({ jsonrpc: '2.0', id, ...error }) }
    }
    await turn(moved)
    const found = { changes: await changes(moved), error: await lastError(moved) }
    on.lies.answer = undefined
    await turn(moved)
    const after = await changes(moved)
    await moved[Symbol.asyncDispose]()
    await service[Symbol.asyncDispose]()
    await on[Symbol.asyncDispose]()
    return { ...found, after }
  }
  const isTokenUri = ([call]: unknown[]) => (call as { data: string }).data.startsWith('0xc87b56dd')
  const asHex = (text: string) => Buffer.from(text).toString('hex')

  it.each<[string, string, Lie]>([
    ['a receipt without the event', 'eth_getTransactionReceipt', (receipt: object) => ({ ...receipt, logs: [] })],
    [
      'an event of another URI',
      'eth_getTransactionReceipt',
      (receipt: object) => JSON.parse(JSON.stringify(receipt).replaceAll(asHex('two.example'), asHex('six.example'))),
    ],
    [
      'a state with another URI',
      'eth_call',
      (data: string, params) => (isTokenUri(params) ? data.replace(asHex('two.example'), asHex('one.example')) : data),
    ],
  ])('cannot have it confirmed by %s', async (_what, method, lie) => {
    const { changes: before, error, after } = await confirmThrough(method, lie)
    expect(before).toMatchObject([{ state: 'sent', result: null }])
    expect(error).toMatch(/lacks what .* must have logged/)
    expect(after).toMatchObject([{ state: 'confirmed', result: '0' }])
  })

  it('that has pruned the state of the block confirms it by the newest one', async () => {
    const { changes: found } = await confirmThrough('eth_call', (data: string, params) =>
      isTokenUri(params) && params[1] !== 'latest' ? 'pruned' : data,
    )
    expect(found).toMatchObject([{ state: 'confirmed', result: '0' }])
  })

  // It belongs to another account, which names our wallet as that of the agent.
  it.each([
    ['control characters', 'https://a\u0000b\u202e.example', 'https://a'],
    ['64 KiB', 'x'.repeat(33_000), null],
  ])('and one with %s does not stop the identity check', async (_what, uri, start) => {
    await using on = await openChainService()
    await asOther(on, registerWith(uri))
    await asOther(on, encodeFunctionData({ abi, functionName: 'setWallet', args: [0n, testAddress] }))
    await using service = await on.open({ TRUST_AGENT_ID: '0' })
    await turn(service)
    const [row] = await service.rows<{ status: string; uri: string | null }>('select status, uri from chain_identities')
    expect(row?.status).toBe('live')
    if (start === null) expect(row?.uri).toBeNull()
    else expect(row?.uri).toMatch(/^https:\/\/a[^\u0000\u202e]+\.example$/)
  })
})
