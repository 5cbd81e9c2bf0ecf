import { keccak256, toBytes } from 'viem/utils'
import { describe, expect, it } from 'vitest'
import { missingAnvil } from '../../../../../test-servers/anvil.ts'
import { effort } from '../../../../../test-servers/effort.ts'
import { listJobs } from '../../jobs.ts'
import {
  type ChainService,
  countOf,
  mine,
  openChainService,
  otherAddress,
  record,
  testAddress,
  transactions,
  trust,
  turn,
  withSchema,
} from '../../testing/chain.ts'
import type { TestService } from '../../testing/service.ts'
import { schemaUid } from './eas.ts'

const missing = missingAnvil()
if (missing !== undefined) console.warn(`${missing}: the on-chain side is not tested`)

const errorOf = (service: TestService) =>
  service.rows<{ last_error: string | null }>('select last_error from chain_senders').then(([row]) => row?.last_error)

/** Submits an attestation and mines blocks until it is confirmed. */
async function attest(on: ChainService, service: TestService, number = 1): Promise<void> {
  await service.services.chain!.submit([record(number)])
  await turn(service)
  await mine(on.chain, 3)
  await turn(service)
}

describe.skipIf(missing !== undefined)('attestations on a chain', () => {
  it('shows the published hash on the chain once it has enough confirmations, not a block earlier', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    await withSchema(on, service)
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-1', name: 'One' } })
    const attesting = listJobs(service.deps, service.services).find(({ name }) => name === 'attestations')!
    await attesting.run()
    const before = (await trust(service)).attestations[0]!
    expect(before).not.toHaveProperty('on_chain')

    await turn(service)
    expect((await transactions(service)).at(-1)).toMatchObject({ kind: 'attest', state: 'sent' })
    for (let confirmations = 0; confirmations < 3; confirmations++) {
      await turn(service)
      expect((await trust(service)).attestations[0]).not.toHaveProperty('on_chain')
      await mine(on.chain, 1)
    }
    await turn(service)
    const { on_chain, ...rest } = (await trust(service)).attestations[0]!
    expect(rest).toEqual(before)
    expect(on_chain).toMatchObject({ namespace: 'wardline.v1', tag: 'posture.weekly', score: before.score })
    expect(on_chain!.explorer_url).toBe(`https://blockscan.com/tx/${on_chain!.tx_hash}`)
    expect(on_chain!.network).toMatchObject({ id: 'eip155:31337', name: 'eip155:31337', is_test_network: null })
    const call = `0xa3112a64${on_chain!.uid.slice(2)}`
    const stored = await on.chain.ask<string>('eth_call', { to: on.contracts.eas, data: call }, 'latest')
    expect(stored).toContain(before.hash.slice(2))
    expect(stored).toContain(schemaUid.slice(2))
    expect(service.logged.join()).not.toContain('ac0974bec39a17e3')
  })

  it('sends the same transaction again after a reorganisation undid its confirmation', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    await withSchema(on, service)
    const snapshot = await on.chain.ask<string>('evm_snapshot')
    await attest(on, service)
    const [, before] = await transactions(service)
    expect(before).toMatchObject({ state: 'confirmed' })

    await on.chain.ask('evm_revert', snapshot)
    await mine(on.chain, 2)
    expect(await countOf(on)).toBe(0)
    await turn(service)
    expect((await transactions(service))[1]).toMatchObject({ state: 'sent', result: null })
    await turn(service)
    await mine(on.chain, 3)
    await turn(service)
    expect((await transactions(service))[1]).toMatchObject({ state: 'confirmed', nonce: before!.nonce })
    expect(await countOf(on)).toBe(1)
    await mine(on.chain, 101)
    await turn(service)
    expect(await service.rows('select id from chain_transactions where watched = 1')).toEqual([])
  })

  it('raises the fees of a stuck transaction under the same nonce, up to the limit', async () => {
    await using on = await openChainService()
    await using service = await on.open({ TRUST_MAX_FEE_GWEI: '3' })
    await withSchema(on, service)
    await service.services.chain!.submit([record()])
    for (let round = 0; round < 30; round++) await turn(service)
    const fees = await service.rows<{ max_fee: string }>(
      'select a.max_fee from chain_attempts a join chain_transactions t on t.id = a.transaction_id where t.nonce = 1 order by a.created_at',
    )
    expect(fees.length).toBeGreaterThan(3)
    expect(fees.map(({ max_fee }) => Number(max_fee)).toSorted((a, b) => a - b)).toEqual(
      fees.map(({ max_fee }) => Number(max_fee)),
    )
    expect(Number(fees.at(-1)!.max_fee)).toBeLessThanOrEqual(3e9)
    await mine(on.chain, 4)
    await turn(service)
    expect((await transactions(service))[1]).toMatchObject({ state: 'confirmed', nonce: 1 })
    expect(await countOf(on)).toBe(1)
  })

  // Whether the send's response is lost or the process dies before or after the send, the chain has one attestation.
  it('never sends an attestation twice, whenever the process dies', async () => {
    await using on = await openChainService()
    const rounds = effort(5, 50)
    await using first = await on.open()
    await withSchema(on, first)
    for (let round = 1; round <= rounds; round++) {
      const died = await on.open({}, first)
      await died.services.chain!.submit([record(round)])
      const dies = ['before', 'after', 'lost'][round % 3]
      on.lies.answer = (method) => {
        if (method !== 'eth_sendRawTransaction') return 'pass'
        if (dies === 'before') return { status: 503, body: '' }
        return dies === 'lost' ? 'lose' : 'pass'
      }
      await turn(died)
      on.lies.answer = undefined
      await died[Symbol.asyncDispose]()
      // The lease is still held when the next process starts, as after SIGKILL.
      await first.execute(`update chain_senders set holder = 'gone', leased_until = ${first.clock.now() + 1_000}`)
      await using next = await on.open({}, first)
      await turn(next)
      await mine(on.chain, 3)
      await turn(next)
      expect(await countOf(on), `round ${round}, died ${dies}`).toBe(round)
    }
    const made = (await transactions(first)).filter(({ kind }) => kind === 'attest')
    expect(made.every(({ state }) => state === 'confirmed')).toBe(true)
  })

  it('sends each attestation once with two processes', async () => {
    await using on = await openChainService()
    await using one = await on.open()
    await withSchema(on, one)
    await using other = await on.open({}, one)
    for (const service of [one, other]) await service.services.chain!.submit([record(1), record(2)])
    for (let round = 0; round < 6; round++) {
      one.clock.advance(600_000)
      await Promise.all([one, other].map(({ services }) => services.chain!.run()))
      await mine(on.chain, 3)
    }
    expect(await countOf(on)).toBe(2)
    expect((await transactions(one)).map(({ state, nonce }) => [state, nonce])).toEqual([
      ['confirmed', 0],
      ['confirmed', 1],
      ['confirmed', 2],
    ])
  })

  it('records the revocation of an attestation once the chain shows it', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    await withSchema(on, service)
    await attest(on, service)
    const uid = (await transactions(service))[1]!.result!
    expect(await service.services.chain!.planRevocation(`0x${'0'.repeat(64)}`)).toBeUndefined()
    await (await service.services.chain!.planRevocation(uid))!.send!()
    const revokedAt = async () => {
      const query = `select revoked_at from chain_transactions where kind = 'attest'`
      return (await service.rows<{ revoked_at: number | null }>(query)).map((row) => row.revoked_at)
    }
    await turn(service)
    expect(await revokedAt()).toEqual([null])
    await mine(on.chain, 3)
    service.clock.advance(3_600_000)
    await turn(service)
    expect(await revokedAt()).toEqual([service.clock.now()])
  })

  it('waits for its schema, says so, and is sent once the schema is registered', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    await service.services.chain!.submit([record()])
    await turn(service)
    expect(await transactions(service)).toMatchObject([{ state: 'pending', error: null }])
    expect(await errorOf(service)).toBe(
      'TRUST_EAS_ADDRESS: the schema of the attestations is not registered on this chain: run `wardline chain schema`.',
    )
    await withSchema(on, service)
    await mine(on.chain, 3)
    await turn(service)
    expect((await transactions(service)).map(({ state }) => state)).toEqual(['confirmed', 'confirmed'])
    expect(await countOf(on)).toBe(1)
    expect(await errorOf(service)).toBeNull()
  })
})

describe.skipIf(missing !== undefined)('the identity', () => {
  it('registers agent 0, and the summary shows it live with its transaction', async () => {
    await using on = await openChainService()
    await using service = await on.open({ WARDLINE_PUBLIC_URL: 'https://wardline.example.com/' })
    expect((await trust(service)).identity).toMatchObject({ registered: false, agent_id: null, status: 'pending' })
    const { plan, send } = await service.services.chain!.planRegistration()
    expect(plan).toMatchObject({
      from: testAddress,
      to: on.contracts.identity,
      uri: 'https://wardline.example.com/.well-known/agent-registration.json',
    })
    await send!()
    await turn(service)
    await mine(on.chain, 3)
    await turn(service)
    await turn(service)
    const { identity, chain } = await trust(service)
    expect(identity).toMatchObject({
      registered: true,
      agent_id: '0',
      agent_registry: `eip155:31337:${on.contracts.identity}`,
      register_tx_url: expect.stringMatching(/^https:\/\/blockscan\.com\/tx\/0x[0-9a-f]{64}$/),
      status: 'live',
    })
    expect(chain).toMatchObject({ erc8004_status: 'live', erc8004_label: 'ERC-8004 identity registered' })
    const file = await service.call('GET', '/.well-known/agent-registration.json', { key: null })
    expect(file.body).toMatchObject({
      type: 'https://eips.ethereum.org/EIPS/eip-8004#registration-v1',
      registrations: [{ agentId: 0, agentRegistry: `eip155:31337:${on.contracts.identity}` }],
    })
    expect(await service.services.chain!.planRegistration()).toHaveProperty('done')
  })

  it('uses a configured identity only after the chain confirms that it belongs to the wallet', async () => {
    await using on = await openChainService()
    const { chain, contracts } = on
    // Another account calls register(string) with an empty text, then setWallet(0, our wallet).
    const register = `0xf2c298be${'20'.padStart(64, '0')}${'0'.repeat(64)}`
    await chain.ask('eth_sendTransaction', { from: otherAddress, to: contracts.identity, data: register })
    await mine(chain, 1)
    await using service = await on.open({ TRUST_AGENT_ID: '0' })
    expect((await trust(service)).identity).toMatchObject({ registered: false, status: 'claimed', agent_id: '0' })
    await turn(service)
    expect((await trust(service)).identity).toMatchObject({ registered: false, status: 'unverified' })
    expect((await trust(service)).chain).toMatchObject({ erc8004_status: 'registering' })
    const selector = keccak256(toBytes('setWallet(uint256,address)')).slice(0, 10)
    const data = `${selector}${'0'.repeat(64)}${testAddress.slice(2).padStart(64, '0')}`
    await chain.ask('eth_sendTransaction', { from: otherAddress, to: contracts.identity, data })
    await mine(chain, 1)
    service.clock.advance(3_600_000)
    await turn(service)
    expect((await trust(service)).identity).toMatchObject({ registered: true, status: 'live', register_tx_url: null })
  })

  it('is unverified for an unregistered agent id', async () => {
    await using on = await openChainService()
    await using service = await on.open({ TRUST_AGENT_ID: '7' })
    await turn(service)
    expect((await trust(service)).identity).toMatchObject({ registered: false, status: 'unverified' })
  })
})

describe.skipIf(missing !== undefined)('an untrusted RPC node', () => {
  const answer = (result: unknown, id: unknown) => ({ body: JSON.stringify({ jsonrpc: '2.0', id, result }) })

  it('receives no transaction if it is of another chain', async () => {
    await using on = await openChainService()
    await using service = await on.open({ TRUST_CHAIN_ID: '1' })
    await service.services.chain!.submit([record()])
    await turn(service)
    expect(await errorOf(service)).toBe(
      'The RPC serves chain 31337, TRUST_CHAIN_ID is 1: set TRUST_RPC_URL to a node of that chain.',
    )
    expect(on.asked).not.toContain('eth_sendRawTransaction')
  })

  const wrong: [string, (truth: string) => string | undefined, RegExp][] = [
    ['no JSON', () => '<html>', /no JSON/],
    ['a huge answer', () => `{"result":"0x${'0'.repeat(1_000_000)}"}`, /no JSON of at most 64 KiB/],
    ['a deep one', () => `${'['.repeat(60_000)}`, /no JSON/],
    ['another question', (truth) => truth.replace(/"id":\d+/, '"id":0'), /answered a different request/],
    ['another form', (truth) => truth.replace(/"result":.*/, '"result":{"toString":1}}'), /with a result that/],
    ['null', () => 'null', /not a JSON-RPC response/],
  ]
  it.each(wrong)('causes an error, not a crash, when it responds with %s', async (_what, lie, sentence) => {
    await using on = await openChainService()
    await using service = await on.open()
    await service.services.chain!.submit([record()])
    on.lies.answer = async (_method, _params, truth) => ({ body: lie(await truth()) ?? '' })
    await turn(service)
    expect(await errorOf(service)).toMatch(sentence)
    on.lies.answer = undefined
    await withSchema(on, service)
    expect(await errorOf(service)).toBeNull()
  })

  it('cannot confirm a transaction with the receipt of another one or with a forged event', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    await withSchema(on, service)
    await service.services.chain!.submit([record()])
    await turn(service)
    await mine(on.chain, 3)
    const lie = (change: (receipt: Record<string, unknown>) => object) => {
      on.lies.answer = async (method, _params, truth) => {
        const { id, result } = JSON.parse(await truth())
        return method === 'eth_getTransactionReceipt' && result ? answer(change(result), id) : answer(result, id)
      }
    }
    lie((receipt) => ({ ...receipt, transactionHash: `0x${'1'.repeat(64)}` }))
    await turn(service)
    expect(await errorOf(service)).toBe('The RPC answered with the receipt of another transaction.')
    lie((receipt) => ({ ...receipt, to: otherAddress }))
    await turn(service)
    expect(await errorOf(service)).toBe('The RPC answered with the receipt of another transaction.')
    lie((receipt) => ({ ...receipt, logs: [] }))
    await turn(service)
    expect(await errorOf(service)).toMatch(/lacks what .* must have logged/)
    lie((receipt) => {
      const logs = receipt.logs as { data: string }[]
      return { ...receipt, logs: logs.map((log) => ({ ...log, data: `0x${'2'.repeat(64)}` })) }
    })
    await turn(service)
    expect(await errorOf(service)).toMatch(/lacks what .* must have logged/)
    expect((await transactions(service))[1]).toMatchObject({ state: 'sent' })
    on.lies.answer = undefined
    await turn(service)
    expect((await transactions(service))[1]).toMatchObject({ state: 'confirmed' })
    expect(await countOf(on)).toBe(1)
  })

  it('is reported once after an hour of outage, and never delays the summary', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    await withSchema(on, service)
    await service.services.chain!.submit([record()])
    on.lies.answer = () => ({ status: 503, body: 'https://node.example/key-of-the-operator' })
    for (let round = 0; round < 20; round++) await turn(service)
    const events = await service.rows<{ description: string }>(
      `select description from events where event_type = 'chain_unavailable'`,
    )
    expect(events).toHaveLength(1)
    expect(events[0]!.description).not.toContain('key-of-the-operator')
    const asked = on.asked.length
    on.lies.answer = () => 'silent'
    expect((await trust(service)).attestations).toEqual([])
    expect(on.asked.length).toBe(asked)
    on.lies.answer = undefined
    await turn(service)
    await mine(on.chain, 3)
    await turn(service)
    expect(await countOf(on)).toBe(1)
  })

  it('does not delay shutdown when it is slow', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    await service.services.chain!.submit([record()])
    const asked = new Promise<void>((resolve) => {
      on.lies.answer = () => {
        resolve()
        return 'silent'
      }
    })
    const run = service.services.chain!.run()
    await asked
    service.services.chain!.close()
    await run
    expect(await errorOf(service)).toContain('cancelled')
  })

  it('cannot cause a second send by hiding the receipt while counting the nonce', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    await withSchema(on, service)
    await service.services.chain!.submit([record()])
    await turn(service)
    on.lies.answer = async (method, _params, truth) => {
      const { id, result } = JSON.parse(await truth())
      return answer(method === 'eth_getTransactionReceipt' ? null : result, id)
    }
    for (let round = 0; round < 3; round++) {
      await turn(service)
      await mine(on.chain, 3)
    }
    expect((await transactions(service))[1]).toMatchObject({
      state: 'failed',
      error: expect.stringContaining('Another program used nonce 1'),
    })
    await service.services.chain!.submit([record()])
    on.lies.answer = undefined
    await turn(service)
    expect(await countOf(on)).toBe(1)
  })
})

describe.skipIf(missing !== undefined)('spending limits', () => {
  it('refuse to send above the fee limit, above the budget or without a balance, each with a separate error', async () => {
    await using on = await openChainService()
    const faults: [Record<string, string>, RegExp][] = [
      [{ TRUST_MAX_FEE_GWEI: '0.000001' }, /TRUST_MAX_FEE_GWEI allows 0.000001: wait, or raise it/],
      [{ TRUST_WEEKLY_BUDGET: '0.000000000000001' }, /TRUST_WEEKLY_BUDGET is 0.000000000000001: wait, or raise it/],
    ]
    await using schema = await on.open()
    await withSchema(on, schema)
    for (const [env, sentence] of faults) {
      await using service = await on.open(env)
      await service.services.chain!.submit([record()])
      await turn(service)
      expect(await errorOf(service)).toMatch(sentence)
    }
    await on.chain.ask('anvil_setBalance', testAddress, '0x1')
    await using service = await on.open()
    await service.services.chain!.submit([record()])
    await turn(service)
    expect(await errorOf(service)).toMatch(/has 0\.0*1, and the transaction may cost .*: send it some|insufficient/i)
    expect(await countOf(on)).toBe(0)
  })
})
