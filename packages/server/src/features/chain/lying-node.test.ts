import type { ChainDropPlan } from '@wardline/contract'
import { describe, expect, it } from 'vitest'
import { missingAnvil } from '../../../../../test-servers/anvil.ts'
import {
  type ChainService,
  countOf,
  mine,
  openChainService,
  otherAddress,
  record,
  testAddress,
  transactions,
  turn,
  withSchema,
} from '../../testing/chain.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

const missing = missingAnvil()
if (missing !== undefined) console.warn(`${missing}: falsified answers of a node are not tested`)

type Lie = (method: string, params: unknown[], result: unknown) => unknown

/** Lets the node answer with what `lie` makes of the true result. */
function lying(on: ChainService, lie: Lie): void {
  on.lies.answer = async (method, params, truth) => {
    const { id, result, error } = JSON.parse(await truth())
    const answer = error ? { error } : { result: lie(method, params, result) }
    return { body: JSON.stringify({ jsonrpc: '2.0', id, ...answer }) }
  }
}
const countingAs =
  (count: string, at?: string): Lie =>
  (method, params, result) =>
    method === 'eth_getTransactionCount' && (at === undefined || params[1] === at) ? count : result

const eventsOf = (service: TestService, type: string) =>
  service.rows<{ severity: string; description: string }>(
    `select severity, description from events where event_type = '${type}' order by seq`,
  )
const attests = (service: TestService) =>
  service.rows<{ id: string; state: string; nonce: number | null; error: string | null; cost: string | null }>(
    `select id, state, nonce, error, cost from chain_transactions where kind = 'attest' order by created_at, id`,
  )
const lastError = async (service: TestService) =>
  (await service.rows<{ last_error: string | null }>('select last_error from chain_senders'))[0]!.last_error

const dropPath = (id: string) => `/api/chain/transactions/${id}/drop`
const plan = async (service: TestService, id: string) => (await service.call<ChainDropPlan>('GET', dropPath(id))).body
const drop = (service: TestService, id: string, action: string) =>
  service.call('POST', dropPath(id), { body: { action } })

describe.skipIf(missing !== undefined)('a node that lies about the nonce', () => {
  // A transaction with a nonce that is too high never gets into a block, and all later ones wait behind it.
  it.each(['latest', 'pending'])('cannot have a higher one signed (%s), and is reported once', async (at) => {
    await using on = await openChainService()
    await using service = await on.open()
    await withSchema(on, service)
    await service.services.chain!.submit([record()])
    for (const count of ['0x7', '0x8']) {
      lying(on, countingAs(count, at))
      await turn(service)
    }
    expect(await attests(service)).toMatchObject([{ state: 'pending', nonce: null }])
    expect(await lastError(service)).toMatch(
      /^The RPC counts 8 transactions of the wallet, and 1 are known: .* TRUST_WALLET_NONCE to 8/,
    )
    expect(await eventsOf(service, 'chain_nonce_refused')).toMatchObject([
      {
        severity: 'warning',
        description: expect.stringMatching(/^The node counts 7 .*, this service 1: nothing is signed/),
      },
    ])
    on.lies.answer = undefined
    await turn(service)
    await mine(on.chain, 3)
    await turn(service)
    expect(await attests(service)).toMatchObject([{ state: 'confirmed', nonce: 1 }])
  })

  it('is not believed, but the operator is: a wallet that another program used goes on with TRUST_WALLET_NONCE', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    await withSchema(on, service)
    await on.chain.ask('eth_sendTransaction', { from: testAddress, to: otherAddress })
    await mine(on.chain, 1)
    await service.services.chain!.submit([record()])
    await turn(service)
    expect(await lastError(service)).toMatch(/counts 2 .* 1 are known/)
    await using wrong = await on.open({ TRUST_WALLET_NONCE: '3' }, service)
    await turn(wrong)
    expect(await lastError(service)).toMatch(/The RPC is behind: it knows 2 .*, 3 are done/)
    await using vouched = await on.open({ TRUST_WALLET_NONCE: '2' }, service)
    await turn(vouched)
    await mine(on.chain, 3)
    await turn(vouched)
    expect(await attests(service)).toMatchObject([{ state: 'confirmed', nonce: 2 }])
  })

  // Nothing is known of a new wallet, so its first nonce is the node's. Without an end it would block the queue for ever.
  it('at the first transaction is reported after an hour, and an operator ends it without a cost', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    const { send } = await service.services.chain!.planSchema()
    await send!()
    lying(on, countingAs('0x3e8'))
    await turn(service)
    const [{ id }] = (await service.rows<{ id: string }>('select id from chain_transactions')) as [{ id: string }]
    expect(await transactions(service)).toMatchObject([{ state: 'sent', nonce: 1_000 }])
    expect(await eventsOf(service, 'chain_transaction_stuck')).toEqual([])
    on.lies.answer = undefined
    service.clock.advance(3_600_000)
    for (let round = 0; round < 2; round++) await turn(service)
    expect(await eventsOf(service, 'chain_transaction_stuck')).toMatchObject([
      { severity: 'warning', description: expect.stringContaining(`wardline chain drop ${id} ends it`) },
    ])
    expect(await plan(service, id)).toEqual({
      id,
      kind: 'schema',
      nonce: 1_000,
      counted: 0,
      action: 'give_up',
      max_cost: null,
    })
    expect((await drop(service, id, 'replace')).status).toBe(409)
    expect((await drop(service, id, 'give_up')).body).toEqual({ ok: true, id, action: 'give_up' })
    await turn(service)
    expect(await transactions(service)).toMatchObject([
      {
        state: 'failed',
        nonce: null,
        error: expect.stringContaining('its nonce 1000 is out of reach, the chain counts 0'),
      },
    ])
    expect(await eventsOf(service, 'chain_transaction_failed')).toHaveLength(1)
    const audit = await service.rows<{ actor_name: string; target: string }>(
      `select target from audit_log where action = 'chain.drop'`,
    )
    expect(audit).toEqual([{ target: id }])
    await withSchema(on, service)
    expect(await transactions(service)).toMatchObject([{ state: 'confirmed', nonce: 0 }])
  })
})

describe.skipIf(missing !== undefined)('a dropped transaction', () => {
  async function stuck(on: ChainService): Promise<{ service: TestService; id: string }> {
    const service = await on.open()
    await withSchema(on, service)
    await service.services.chain!.submit([record()])
    await turn(service)
    return { service, id: (await attests(service))[0]!.id }
  }

  it('is replaced by an empty one with its nonce, whose cost counts, and the next one is sent', async () => {
    await using on = await openChainService()
    const { service, id } = await stuck(on)
    await using _service = service
    const shown = await plan(service, id)
    expect(shown).toMatchObject({
      nonce: 1,
      counted: 1,
      action: 'replace',
      max_cost: expect.stringMatching(/^0\.00\d+$/),
    })
    expect((await drop(service, id, 'replace')).status).toBe(200)
    expect((await drop(service, id, 'replace')).body).toEqual({
      error: `The transaction ${id} was already dropped: wait for the empty one that replaces it.`,
    })
    await service.services.chain!.submit([record(2)])
    // Its fees rise as well while it is stuck.
    for (let round = 0; round < 3; round++) await turn(service)
    await mine(on.chain, 3)
    await turn(service)
    expect(await attests(service)).toMatchObject([
      {
        state: 'failed',
        nonce: 1,
        error: expect.stringMatching(/^An operator dropped it: .* nonce 1 in block \d+\.$/),
      },
      { state: 'sent', nonce: 2 },
    ])
    expect(Number((await attests(service))[0]!.cost)).toBeGreaterThan(21_000)
    await mine(on.chain, 3)
    await turn(service)
    expect(await attests(service)).toMatchObject([{ state: 'failed' }, { state: 'confirmed', nonce: 2 }])
    expect(await countOf(on)).toBe(1)
  })

  it('is confirmed if it gets into a block before the empty one', async () => {
    await using on = await openChainService()
    const { service, id } = await stuck(on)
    await using _service = service
    await drop(service, id, 'replace')
    await mine(on.chain, 3)
    await turn(service)
    expect(await attests(service)).toMatchObject([{ state: 'confirmed', nonce: 1 }])
  })

  it('has to be unconfirmed and of this wallet, and only an admin can drop it', async () => {
    await using on = await openChainService()
    const { service, id } = await stuck(on)
    await using _service = service
    const { key } = await service.createKey('operator')
    expect((await service.call('GET', dropPath(id), { key })).status).toBe(403)
    expect((await service.call('POST', dropPath(id), { key, body: { action: 'replace' } })).status).toBe(403)
    expect((await drop(service, id, 'remove')).status).toBe(400)
    expect((await drop(service, 'one', 'replace')).status).toBe(400)
    expect((await drop(service, '00000000-0000-7000-8000-000000000000', 'replace')).status).toBe(404)
    lying(on, (method, _params, result) => (method === 'eth_chainId' ? '0x1' : result))
    expect((await drop(service, id, 'replace')).status).toBe(503)
    on.lies.answer = undefined
    await mine(on.chain, 1)
    expect((await drop(service, id, 'replace')).body).toEqual({
      error: 'The nonce 1 is already used: the transaction ends by itself after the confirmations.',
    })
    await turn(service)
    expect((await drop(service, id, 'replace')).body).toMatchObject({ error: expect.stringMatching(/is in block \d+/) })
    await mine(on.chain, 3)
    await turn(service)
    expect((await drop(service, id, 'replace')).body).toEqual({ error: `The transaction ${id} is already confirmed.` })
  })

  it('needs no node while it is not sent', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    await service.services.chain!.submit([record()])
    on.lies.answer = () => ({ status: 503, body: '' })
    const { id } = (await attests(service))[0]!
    expect(await plan(service, id)).toMatchObject({ nonce: null, counted: null, action: 'give_up', max_cost: null })
    expect((await drop(service, id, 'give_up')).status).toBe(200)
    expect(await attests(service)).toMatchObject([
      { state: 'failed', error: 'An operator dropped it before it was sent.' },
    ])
  })
})

describe.skipIf(missing !== undefined)('a node that lies about the registration', () => {
  it('cannot have an agent confirmed that the registry gives to nobody', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    const { send } = await service.services.chain!.planRegistration()
    await send!()
    await turn(service)
    await mine(on.chain, 3)
    const topic = (agent: number) => `0x${agent.toString(16).padStart(64, '0')}`
    lying(on, (method, _params, result) =>
      method === 'eth_getTransactionReceipt'
        ? JSON.parse(JSON.stringify(result).replace(topic(0), topic(777)))
        : result,
    )
    await turn(service)
    expect(await transactions(service)).toMatchObject([{ kind: 'register', state: 'sent', result: null }])
    expect(await lastError(service)).toMatch(/lacks what .* must have logged/)
    on.lies.answer = undefined
    await turn(service)
    expect(await transactions(service)).toMatchObject([{ state: 'confirmed', result: '0' }])
  })

  // Each registration costs money, and an agent with two identities has none.
  it('cannot have a second one made by denying the first', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    const { send } = await service.services.chain!.planRegistration()
    await send!()
    await turn(service)
    await mine(on.chain, 3)
    lying(on, (method, _params, result) =>
      method === 'eth_getTransactionReceipt' ? { ...(result as object), status: '0x0' } : result,
    )
    await turn(service)
    expect(await transactions(service)).toMatchObject([{ kind: 'register', state: 'failed' }])
    on.lies.answer = undefined
    await expect(service.services.chain!.planRegistration()).rejects.toThrow(
      `${testAddress} owns 1 in this registry already: set TRUST_AGENT_ID to the one that this service is.`,
    )
  })

  it('is published at once when it is confirmed, also in the registration file', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    const agents = async () =>
      (await service.call<{ registrations: object[] }>('GET', '/.well-known/agent-registration.json', { key: null }))
        .body.registrations.length
    const { send } = await service.services.chain!.planRegistration()
    await send!()
    await turn(service)
    expect(await agents()).toBe(0)
    await mine(on.chain, 3)
    // One run of the job, right after one that has read the identity.
    service.clock.advance(5_000)
    await service.services.chain!.run()
    expect(await agents()).toBe(1)
  })
})

// Providers put the key into the URL.
it.skipIf(missing !== undefined)(
  'a node that repeats its URL shows no part of it in errors, events and logs',
  async () => {
    await using on = await openChainService()
    const secret = 'v3-Kj28dhq9XoLm42'
    await using service = await on.open({ TRUST_RPC_URL: `${on.env.TRUST_RPC_URL}/${secret}?token=${secret}-too` })
    await service.services.chain!.submit([record()])
    const url = `${on.env.TRUST_RPC_URL}/${secret}?token=${secret}-too`
    on.lies.answer = () => ({
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, error: { code: -1, message: `bad key at ${url}` } }),
    })
    for (let round = 0; round < 20; round++) await turn(service)
    expect(await lastError(service)).toContain('[secret]')
    const shown = JSON.stringify([await lastError(service), await service.rows('select * from events'), service.logged])
    expect(shown).not.toContain(secret)
  },
)

describe.skipIf(missing !== undefined)('an offer below the base fee of blocks', () => {
  it('is raised at once', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    await withSchema(on, service)
    await service.services.chain!.submit([record()])
    const attempts = () => service.rows<{ max_fee: string }>('select max_fee from chain_attempts order by created_at')
    on.lies.answer = async (method, _params, truth) => {
      if (method !== 'eth_sendRawTransaction') return { body: await truth() }
      const error = { code: -32000, message: 'max fee per gas less than block base fee: maxFeePerGas: 1, baseFee: 2' }
      return { body: JSON.stringify({ jsonrpc: '2.0', id: 1, error }) }
    }
    await service.services.chain!.run()
    expect(await attempts()).toHaveLength(2)
    service.clock.advance(10_000)
    await service.services.chain!.run()
    const fees = (await attempts()).map(({ max_fee }) => Number(max_fee))
    expect(fees).toHaveLength(3)
    expect(fees[2]).toBeGreaterThan(1.12 * fees[1]!)
    on.lies.answer = undefined
    await turn(service)
    await mine(on.chain, 3)
    await turn(service)
    expect(await countOf(on)).toBe(1)
  })
})

it('names what is missing if no wallet is configured', async () => {
  await using service = await openTestService()
  const { status, body } = await service.call('GET', dropPath('00000000-0000-7000-8000-000000000000'))
  expect(status).toBe(404)
  expect(body).toEqual({
    error: 'No wallet is configured: set TRUST_RPC_URL, and TRUST_WALLET_KEY_FILE or TRUST_SIGNER_URL.',
  })
})

describe.skipIf(missing !== undefined)('a node that lies about the cost', () => {
  // Receipts of no cost freed the weekly budget: transaction by transaction the wallet could be emptied.
  it.each([
    ['no gas', { gasUsed: '0x0' }],
    ['no price', { effectiveGasPrice: '0x0' }],
    ['an absurd price', { effectiveGasPrice: `0x${'f'.repeat(64)}` }],
  ])('cannot free the weekly budget by a receipt with %s', async (_what, change) => {
    await using on = await openChainService()
    await using service = await on.open()
    lying(on, (method, _params, result) =>
      method === 'eth_getTransactionReceipt' && result ? { ...(result as object), ...change } : result,
    )
    await withSchema(on, service)
    const [schema] = await service.rows<{ cost: string; gas: number; max_fee: string }>(
      'select t.cost, t.gas, a.max_fee from chain_transactions t join chain_attempts a on a.transaction_id = t.id',
    )
    expect(schema!.cost).toBe(String(BigInt(schema!.gas) * BigInt(schema!.max_fee)))
  })

  it('cannot have a tip signed that exceeds half of the base fee', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    lying(on, (method, _params, result) =>
      method === 'eth_feeHistory' ? { ...(result as object), reward: [['0xee6b2800']] } : result,
    )
    await withSchema(on, service)
    const [attempt] = await service.rows<{ max_fee: string; max_tip: string }>(
      'select max_fee, max_tip from chain_attempts',
    )
    const [max, tip] = [Number(attempt!.max_fee), Number(attempt!.max_tip)]
    expect(tip).toBeLessThanOrEqual((max - tip) / 4)
  })
})

describe.skipIf(missing !== undefined)('a node that lies about gas', () => {
  // Nodes refuse such a transaction, and so they would the empty one that replaces it: the wallet would be useless.
  it.each([
    ['none', '0x0'],
    ['less than its data costs', '0x5300'],
  ])('cannot have a transaction signed that no block can contain: %s', async (_what, gas) => {
    await using on = await openChainService()
    await using service = await on.open()
    await withSchema(on, service)
    await service.services.chain!.submit([record()])
    lying(on, (method, _params, result) => (method === 'eth_estimateGas' ? gas : result))
    await turn(service)
    expect(await attests(service)).toMatchObject([{ state: 'pending', nonce: null }])
    expect(await lastError(service)).toMatch(/^The RPC estimates \d+ gas for a transaction that needs \d+ at least/)
    await expect(service.services.chain!.planRegistration()).rejects.toThrow(/^The RPC estimates/)
    on.lies.answer = undefined
    await turn(service)
    await mine(on.chain, 3)
    await turn(service)
    expect(await attests(service)).toMatchObject([{ state: 'confirmed', nonce: 1 }])
  })
})

describe.skipIf(missing !== undefined)('a node whose error is not text', () => {
  it.each([
    ['an object that cannot be converted', '{"toString":1,"valueOf":1}'],
    ['arrays in each other', `${'['.repeat(20_000)}${']'.repeat(20_000)}`],
  ])('is a node that refuses: %s', async (_what, message) => {
    await using on = await openChainService()
    await using service = await on.open()
    await withSchema(on, service)
    await service.services.chain!.submit([record()])
    on.lies.answer = (method) =>
      method === 'eth_blockNumber' ? { body: `{"jsonrpc":"2.0","id":1,"error":{"message":${message}}}` } : 'pass'
    await turn(service)
    expect(await lastError(service)).toBe('The RPC refused eth_blockNumber: without a message')
  })
})
