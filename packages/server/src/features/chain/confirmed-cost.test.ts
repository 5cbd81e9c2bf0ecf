import { describe, expect, it } from 'vitest'
import { missingAnvil } from '../../../../../test-servers/anvil.ts'
import {
  type ChainService,
  countOf,
  mine,
  record,
  transactions,
  turn,
  withIdentity,
  withSchema,
} from '../../testing/chain.ts'
import { openAgentChain } from '../../testing/chain-agent.ts'
import type { TestService } from '../../testing/service.ts'
import { verifySelf } from '../trust/verification/verify.ts'

const missing = missingAnvil()
if (missing !== undefined) console.warn(`${missing}: confirmed costs are not tested`)

interface Case {
  kind: string
  /** The command that confirms a higher cost. */
  command: string
  env?: Record<string, string>
  /** Queues it like its command, after the person confirmed the shown cost. */
  send(on: ChainService, service: TestService): Promise<void>
  /** What the command finds when it runs again. */
  higher(service: TestService): Promise<Higher>
}
type Higher = { plan: { cost: string; confirmed: string }; confirm(): Promise<void> } | undefined

const uidOf = async (service: TestService) =>
  (await transactions(service)).find(({ kind, state }) => kind === 'attest' && state === 'confirmed')!.result!

async function verify(on: ChainService, service: TestService): Promise<void> {
  await withIdentity(on, service)
  const { row } = (await verifySelf(service.deps))!
  await (await service.services.chain!.planVerification({ ...row, unified_score: 30 })).send()
}

const cases: Case[] = [
  {
    kind: 'register',
    command: 'wardline chain register',
    send: async (_on, { services }) => (await services.chain!.planRegistration()).send!(),
    higher: async ({ services }) => (await services.chain!.planRegistration()).higher,
  },
  {
    kind: 'schema',
    command: 'wardline chain schema',
    send: async (_on, { services }) => (await services.chain!.planSchema()).send!(),
    higher: async ({ services }) => (await services.chain!.planSchema()).higher,
  },
  {
    kind: 'revoke',
    command: 'wardline chain revoke 0x',
    send: async (on, service) => {
      await withSchema(on, service)
      await service.services.chain!.submit([record()])
      await turn(service)
      await mine(on.chain, 3)
      await turn(service)
      await (await service.services.chain!.planRevocation(await uidOf(service)))!.send!()
    },
    higher: async (service) => (await service.services.chain!.planRevocation(await uidOf(service)))!.higher,
  },
  {
    kind: 'set-uri',
    command: 'wardline chain set-uri',
    // The file is in the identity, and names its agent only after the registration.
    env: { WARDLINE_PUBLIC_URL: '' },
    send: async (on, service) => {
      await withIdentity(on, service)
      await (await service.services.chain!.planUri()).send()
    },
    higher: async ({ services }) => (await services.chain!.openUri())!.higher,
  },
  {
    kind: 'validate',
    command: 'wardline chain verify',
    send: verify,
    higher: async ({ services }) => (await services.chain!.openVerification())!.higher,
  },
  {
    kind: 'respond',
    command: 'wardline chain verify',
    send: async (on, service) => {
      await verify(on, service)
      await turn(service)
      await mine(on.chain, 3)
      // The next turn confirms the request, and would send the response.
      on.lies.answer = (method) => (method === 'eth_estimateGas' ? { status: 503, body: '' } : 'pass')
      await turn(service)
      on.lies.answer = undefined
    },
    higher: async ({ services }) => (await services.chain!.openVerification())!.higher,
  },
]

/** Blocks cost `gwei` from the next but one on, a little less. */
async function raiseBaseFee({ chain }: ChainService, gwei: number): Promise<void> {
  await chain.ask('anvil_setNextBlockBaseFeePerGas', `0x${Math.round(gwei * 1e9).toString(16)}`)
  await mine(chain, 1)
}

const lastError = async (service: TestService) =>
  (await service.rows<{ last_error: string | null }>('select last_error from chain_senders'))[0]!.last_error
const rowOf = async (service: TestService, kind: string) =>
  (
    await service.rows<{ id: string; state: string; max_cost: string; gas: number | null; error: string | null }>(
      `select id, state, max_cost, gas, error from chain_transactions where kind = '${kind}'`,
    )
  )[0]!
/** What the signed attempts cost at most. */
const signedOf = async (service: TestService, kind: string) => {
  const { id, gas } = await rowOf(service, kind)
  const attempts = await service.rows<{ max_fee: string }>(
    `select max_fee from chain_attempts where transaction_id = '${id}' order by created_at`,
  )
  return attempts.map(({ max_fee }) => BigInt(gas!) * BigInt(max_fee))
}

describe.skipIf(missing !== undefined).each(cases)(
  'the confirmed cost of $kind',
  ({ kind, command, env, send, higher }) => {
    it('is not exceeded by the first send: it waits until the command confirms a higher one', async () => {
      await using on = await openAgentChain()
      await using service = await on.open(env)
      await send(on, service)
      await raiseBaseFee(on, 4)
      const { max_cost } = await rowOf(service, kind)
      for (let round = 0; round < 3; round++) await turn(service)
      expect(await rowOf(service, kind)).toMatchObject({ state: 'pending', max_cost, error: null })
      expect(await signedOf(service, kind)).toEqual([])
      expect(await lastError(service)).toMatch(
        /^The transaction \([a-z-]+\) costs up to 0\.\d+ now, 0\.\d+ was confirmed: run `wardline chain .*` again to confirm the higher cost\.$/,
      )
      expect(await lastError(service)).toContain(`run \`${command}`)
      expect(service.logged.join()).toContain('was confirmed: run')

      const again = (await higher(service))!
      expect(Number(again.plan.cost)).toBeGreaterThan(Number(again.plan.confirmed))
      await again.confirm()
      expect(await higher(service)).toBeUndefined()
      // At once: the pause after the error has ended.
      await service.services.chain!.run()
      const raised = await rowOf(service, kind)
      expect(raised.state).toBe('sent')
      const [signed] = await signedOf(service, kind)
      expect(signed).toBeGreaterThan(BigInt(max_cost))
      expect(signed).toBeLessThanOrEqual(BigInt(raised.max_cost))
      await mine(on.chain, 3)
      await turn(service)
      expect(await rowOf(service, kind)).toMatchObject({ state: 'confirmed' })
    })

    it('is not exceeded while it is stuck: its fees rise again after the command confirmed a higher one', async () => {
      await using on = await openAgentChain()
      await using service = await on.open(env)
      await send(on, service)
      expect(await higher(service)).toBeUndefined()
      const { max_cost } = await rowOf(service, kind)
      await turn(service)
      // A block has not taken it yet, so nothing has to be confirmed.
      expect(await higher(service)).toBeUndefined()
      for (let round = 0; round < 15 && (await lastError(service)) === null; round++) await turn(service)
      const before = await signedOf(service, kind)
      expect(before.filter((cost) => cost > BigInt(max_cost))).toEqual([])
      expect(await lastError(service)).toContain(`was confirmed: run \`${command}`)

      const again = (await higher(service))!
      expect(Number(again.plan.cost)).toBeGreaterThan(Number(again.plan.confirmed))
      await again.confirm()
      await turn(service)
      expect(await lastError(service)).toBeNull()
      const { max_cost: now } = await rowOf(service, kind)
      const signed = await signedOf(service, kind)
      expect(signed).toHaveLength(before.length + 1)
      expect(signed.at(-1)).toBeGreaterThan(BigInt(max_cost))
      expect(signed.at(-1)).toBeLessThanOrEqual(BigInt(now))
      await mine(on.chain, 3)
      await turn(service)
      expect(await rowOf(service, kind)).toMatchObject({ state: 'confirmed' })
    })
  },
)

describe.skipIf(missing !== undefined)('a transaction that waits for a higher cost', () => {
  it('does not block others, and its response is not sent before it', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await withSchema(on, service)
    await verify(on, service)
    await raiseBaseFee(on, 4)
    await service.services.chain!.submit([record()])
    await turn(service)
    await mine(on.chain, 3)
    await turn(service)
    expect(await countOf(on)).toBe(1)
    expect(await rowOf(service, 'validate')).toMatchObject({ state: 'pending' })
    expect(await rowOf(service, 'respond')).toMatchObject({ state: 'pending', error: null })
    expect(await rowOf(service, 'attest')).toMatchObject({ state: 'confirmed' })
  })

  it('is sent without a question once the chain asks for no more than was confirmed', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await (await service.services.chain!.planRegistration()).send!()
    await raiseBaseFee(on, 4)
    await turn(service)
    expect(await rowOf(service, 'register')).toMatchObject({ state: 'pending' })
    await mine(on.chain, 15)
    await turn(service)
    expect(await rowOf(service, 'register')).toMatchObject({ state: 'sent' })
  })

  it('may use its room for a rising base fee without a question', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await (await service.services.chain!.planRegistration()).send!()
    const { max_cost } = await rowOf(service, 'register')
    const { baseFeePerGas } = await on.chain.ask<{ baseFeePerGas: string }>('eth_getBlockByNumber', 'latest', false)
    await raiseBaseFee(on, (1.5 * Number(baseFeePerGas)) / 1e9)
    await turn(service)
    const [signed] = await signedOf(service, 'register')
    expect(signed).toBeLessThanOrEqual(BigInt(max_cost))
    await mine(on.chain, 3)
    await turn(service)
    expect(await rowOf(service, 'register')).toMatchObject({ state: 'confirmed' })
  })

  it('shows its two parts as one sum, and each keeps its part', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await withIdentity(on, service)
    const { row } = (await verifySelf(service.deps))!
    const { plan, send } = await service.services.chain!.planVerification({ ...row, unified_score: 30 })
    await send()
    const parts = [await rowOf(service, 'validate'), await rowOf(service, 'respond')].map(({ max_cost }) =>
      BigInt(max_cost),
    )
    expect(Number(parts[0]! + parts[1]!) / 1e18).toBeCloseTo(Number(plan.cost), 15)
    expect(parts.every((part) => part > 0n)).toBe(true)
  })

  it('is not asked about for the weekly attestations, which no person confirms', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await withSchema(on, service)
    await service.services.chain!.submit([record()])
    expect(await rowOf(service, 'attest')).toMatchObject({ max_cost: null })
    await raiseBaseFee(on, 4)
    await turn(service)
    expect(await rowOf(service, 'attest')).toMatchObject({ state: 'sent' })
  })
})

describe.skipIf(missing !== undefined)('a dropped transaction', () => {
  it('is replaced within the cost that the plan shows, not within that of its call', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await (await service.services.chain!.planRegistration()).send!()
    await turn(service)
    const { id, max_cost, gas } = await rowOf(service, 'register')
    const path = `/api/chain/transactions/${id}/drop`
    const shown = (await service.call<{ max_cost: string }>('GET', path)).body
    await service.call('POST', path, { body: { action: 'replace' } })
    for (let round = 0; round < 25; round++) await turn(service)
    const signed = await signedOf(service, 'register')
    expect(signed.length).toBeGreaterThan(5)
    expect(signed.at(-1)).toBeGreaterThan(BigInt(max_cost))
    expect(signed.every((cost) => Number(cost) / 1e18 <= Number(shown.max_cost))).toBe(true)
    expect(gas).not.toBeNull()
    expect(await service.services.chain!.planRegistration()).toMatchObject({ higher: undefined })
  })
})
