import { decodeAbiParameters, keccak256, parseAbiParameters, toBytes } from 'viem/utils'
import { describe, expect, it } from 'vitest'
import { missingAnvil } from '../../../../../test-servers/anvil.ts'
import { effort } from '../../../../../test-servers/effort.ts'
import {
  type ChainService,
  mine,
  otherAddress,
  testAddress,
  transactions,
  trust,
  turn,
  withIdentity,
} from '../../testing/chain.ts'
import { openAgentChain } from '../../testing/chain-agent.ts'
import { registrationFile } from '../../testing/https-site.ts'
import type { TestService } from '../../testing/service.ts'
import { verifySelf } from '../trust/verification/verify.ts'
import { responseOf } from './verification-report.ts'

const missing = missingAnvil()
if (missing !== undefined) console.warn(`${missing}: posted verifications are not tested`)

const statusForm = parseAbiParameters('address, uint256, uint8, bytes32, string, uint256')
const ask = (on: ChainService, data: string) =>
  on.chain.ask<`0x${string}`>('eth_call', { to: on.contracts.validation, data }, 'latest')
const selector = (signature: string) => keccak256(toBytes(signature)).slice(0, 10)
const statusOf = async (on: ChainService, hash: string) =>
  decodeAbiParameters(statusForm, await ask(on, `${selector('getValidationStatus(bytes32)')}${hash.slice(2)}`))
/** Counts the requests and responses stored in the contract. */
const countsOf = async (on: ChainService) => [
  Number(await ask(on, selector('requests()'))),
  Number(await ask(on, selector('responses()'))),
]

/**
 * Verifies and queues a posting, like `wardline chain verify`. `risk` overrides the score, so that it is not a round
 * number.
 */
async function post(service: TestService, risk?: number) {
  const { row, notePosting } = (await verifySelf(service.deps))!
  const scores = { ...row, unified_score: risk ?? row.unified_score! }
  const planned = await service.services.chain!.planVerification(scores)
  await notePosting(planned.requestHash, planned.plan.report)
  return planned
}

/** Mines until both the request and the response are confirmed. */
async function settle(on: ChainService, service: TestService): Promise<void> {
  for (let round = 0; round < 3; round++) {
    await turn(service)
    await mine(on.chain, 3)
  }
  await turn(service)
}

describe('the response', () => {
  it('inverts the risk: 100 is best', () => {
    expect([0, 30, 100].map(responseOf)).toEqual([100, 70, 0])
  })
})

describe.skipIf(missing !== undefined)('a posted verification', () => {
  it('is shown with hashes, transactions and time once both are confirmed, and matches the chain', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await withIdentity(on, service)
    const { plan, requestHash, send } = await post(service, 30)
    expect(plan).toMatchObject({ from: testAddress, to: on.contracts.validation, response: 70 })
    expect(Number(plan.cost)).toBeGreaterThan(0)
    expect(await send()).toBe(true)
    const posted = async () => (await trust(service)).verification.on_chain
    for (let round = 0; round < 3; round++) {
      expect((await posted()).request_hash).toBeNull()
      await turn(service)
      await mine(on.chain, 1)
    }
    await settle(on, service)
    const found = await posted()
    expect(found).toEqual({
      request_hash: requestHash,
      request_tx_hash: expect.stringMatching(/^0x[0-9a-f]{64}$/),
      response_tx_hash: expect.stringMatching(/^0x[0-9a-f]{64}$/),
      request_explorer_url: `https://blockscan.com/tx/${found.request_tx_hash}`,
      response_explorer_url: `https://blockscan.com/tx/${found.response_tx_hash}`,
      submitted_at: expect.any(String),
      validation_registry: on.contracts.validation,
      report: plan.report,
    })
    expect((await trust(service)).chain).toMatchObject({
      erc8126_status: 'live',
      erc8126_label: 'Self-attested scores after ERC-8126, posted on a chain',
    })
    const [validator, agentId, response, responseHash, tag] = await statusOf(on, requestHash)
    expect([validator, agentId, response, tag]).toEqual([testAddress, 0n, 70, 'erc8126.risk'])
    expect(responseHash).toBe(keccak256(toBytes(found.report!)))
    expect(keccak256(toBytes(plan.request))).toBe(requestHash)
    expect(JSON.parse(found.report!)).toMatchObject({
      request_hash: requestHash,
      unified_risk_score: 30,
      response: 70,
      self_attested: true,
    })
  })

  // A registry also returns 0 for a request without a response.
  it('counts with a response of 0, but not without a response', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await withIdentity(on, service)
    const { requestHash, send } = await post(service, 100)
    await send()
    await turn(service)
    await mine(on.chain, 3)
    expect((await statusOf(on, requestHash))[2]).toBe(0)
    const pending = (await transactions(service)).find(({ kind }) => kind === 'respond')
    expect(pending).toMatchObject({ state: 'pending', result: null })
    await settle(on, service)
    expect((await statusOf(on, requestHash))[4]).toBe('erc8126.risk')
    expect((await trust(service)).verification.on_chain.request_hash).toBe(requestHash)
  })

  it('is sent once by two simultaneous commands and two processes', async () => {
    await using on = await openAgentChain()
    await using one = await on.open()
    await withIdentity(on, one)
    await using other = await on.open({}, one)
    const plans = [await post(one), await post(other)]
    const sent = await Promise.all(plans.map(({ send }) => send()))
    expect(sent.toSorted()).toEqual([false, true])
    expect(await plans[1]!.send()).toBe(false)
    for (let round = 0; round < 5; round++) {
      one.clock.advance(600_000)
      await Promise.all([one, other].map(({ services }) => services.chain!.run()))
      await mine(on.chain, 3)
    }
    expect(await countsOf(on)).toEqual([1, 1])
    expect(await one.services.chain!.openVerification()).toBeUndefined()
    expect(await (await post(one)).send()).toBe(true)
  })

  it('is sent once, whenever the process dies', async () => {
    await using on = await openAgentChain()
    await using first = await on.open()
    await withIdentity(on, first)
    const rounds = effort(3, 25)
    for (let round = 1; round <= rounds; round++) {
      await (await post(first)).send()
      for (const dies of ['before', 'lost', 'after'].slice(round % 3).concat('none')) {
        await using next = await on.open({}, first)
        on.lies.answer = (method) => {
          if (method !== 'eth_sendRawTransaction' || dies === 'none') return 'pass'
          if (dies === 'before') return { status: 503, body: '' }
          return dies === 'lost' ? 'lose' : 'pass'
        }
        await turn(next)
        await first.execute(`update chain_senders set holder = 'gone', leased_until = ${first.clock.now() + 1_000}`)
        await mine(on.chain, 1)
      }
      on.lies.answer = undefined
      await settle(on, first)
      expect(await countsOf(on), `round ${round}`).toEqual([round, round])
    }
  })

  it('is shown again after a reorganisation undid both, with the same nonces', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await withIdentity(on, service)
    const { requestHash, send } = await post(service)
    const snapshot = await on.chain.ask('evm_snapshot')
    await send()
    await settle(on, service)
    const before = await transactions(service)
    await on.chain.ask('evm_revert', snapshot)
    await mine(on.chain, 2)
    await turn(service)
    expect((await trust(service)).verification.on_chain.request_hash).toBeNull()
    await settle(on, service)
    await settle(on, service)
    expect((await trust(service)).verification.on_chain.request_hash).toBe(requestHash)
    expect((await transactions(service)).map(({ nonce }) => nonce)).toEqual(before.map(({ nonce }) => nonce))
    expect(await countsOf(on)).toEqual([1, 1])
  })

  it('is not confirmed while the node shows a different response', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await withIdentity(on, service)
    const { send } = await post(service, 30)
    await send()
    on.lies.answer = async (method, _params, truth) => {
      const body = await truth()
      // Changes the response from 70 to 71 in the event and in the state.
      const changed = body.replaceAll(`${'0'.repeat(62)}46`, `${'0'.repeat(62)}47`)
      return { body: /Receipt|eth_call/.test(method) ? changed : body }
    }
    await settle(on, service)
    expect((await trust(service)).verification.on_chain.request_hash).toBeNull()
    on.lies.answer = undefined
    await settle(on, service)
    expect((await trust(service)).verification.on_chain.request_hash).not.toBeNull()
  })

  it('requires a registry and an identity that belongs to the wallet', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await expect(post(service)).rejects.toThrow('There is no identity to verify: run `wardline chain register`')
    await withIdentity(on, service)
    await using without = await on.open({ TRUST_VALIDATION_REGISTRY: '' }, service)
    await expect(post(without)).rejects.toThrow('TRUST_VALIDATION_REGISTRY is not set')
    const uri = `${on.agent.url}/.well-known/agent-registration.json`
    await on.send(otherAddress, { functionName: 'register', args: [uri] })
    await using stranger = await on.open({ TRUST_AGENT_ID: '1' })
    await expect(post(stranger)).rejects.toThrow(/refused eth_estimateGas: .*not the owner/)
    await using wrong = await on.open({ TRUST_VALIDATION_REGISTRY: otherAddress }, service)
    await expect(post(wrong)).rejects.toThrow(
      `TRUST_VALIDATION_REGISTRY: there is no contract at ${otherAddress} on this chain: correct the address.`,
    )
  })

  // What was posted without them, as 100 of 100, could not be taken back.
  it('is refused, and nothing is signed, unless web application and wallet have a score', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await withIdentity(on, service)
    const sent = (await transactions(service)).length
    const refused = async (by: TestService, ...sentences: string[]) => {
      const fault = await post(by).catch((reason: Error) => reason)
      expect(fault).toBeInstanceOf(Error)
      for (const sentence of [...sentences, '`wardline chain check` says what to correct.'])
        expect((fault as Error).message).toContain(sentence)
      expect(await transactions(service)).toHaveLength(sent)
      expect(await countsOf(on)).toEqual([0, 0])
    }
    await using unlisted = await on.open({ TRUST_BAD_ADDRESSES_FILE: '' }, service)
    await refused(unlisted, 'the wallet (WV) has none: Not compared with a list of bad addresses.')
    on.agent.file = { ...registrationFile('x'), services: [] }
    await refused(service, 'the web application (WAV) has none: The registration file names no endpoint to check.')
    on.agent.file = '<html>'
    await refused(service, 'the web application (WAV) has none', 'the wallet (WV) has none')
    const { planVerification } = service.services.chain!
    on.agent.file = registrationFile(`${on.agent.url}/trust`)
    const { row } = (await verifySelf(service.deps))!
    await expect(planVerification({ ...row, agent_id: null })).rejects.toThrow('There is no identity to verify')
    await expect(planVerification(row)).resolves.toHaveProperty('requestHash')
  })

  it('says what was read and checked, and over what its score is', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await withIdentity(on, service)
    on.agent.file = { ...registrationFile(`${on.agent.url}/trust`), image: 'x', contractAddress: '0x1' }
    const { plan, requestHash } = await post(service)
    const uri = `${on.agent.url}/.well-known/agent-registration.json`
    const about = {
      agent_registry: `eip155:31337:${on.contracts.identity}`,
      agent_id: '0',
      agent_uri: uri,
      agent_uri_hash: keccak256(toBytes(uri)),
      document_hash: keccak256(toBytes(JSON.stringify(on.agent.file))),
      wallet: testAddress,
    }
    expect(JSON.parse(plan.request)).toMatchObject({ type: 'wardline.verification-request.v2', ...about })
    expect(JSON.parse(plan.report)).toMatchObject({
      type: 'wardline.verification-report.v2',
      ...about,
      request_hash: requestHash,
      applies: ['wav', 'wv', 'etv', 'mcv'],
      scores: { wav: 0, wv: 0 },
      scored: ['wav', 'wv'],
      not_checked: ['etv', 'mcv'],
      unified_risk_score: 0,
      response: 100,
    })
  })

  it('is no longer shown if an earlier version posted it, by the settings instead of the registry', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await withIdentity(on, service)
    await (await post(service)).send()
    await settle(on, service)
    const { verification, chain } = await trust(service)
    expect([verification.on_chain.request_hash, chain.erc8126_status]).toEqual([expect.any(String), 'live'])
    await service.execute('update verifications set agent_registry = null, agent_id = null')
    const after = await trust(service)
    expect(after.verification.on_chain.request_hash).toBeNull()
    expect(after.chain.erc8126_label).toBe('No ERC-8126 verification stored')
  })
})
