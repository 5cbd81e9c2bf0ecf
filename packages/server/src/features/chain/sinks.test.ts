import { describe, expect, it } from 'vitest'
import { missingAnvil } from '../../../../../test-servers/anvil.ts'
import { listJobs } from '../../jobs.ts'
import {
  type ChainService,
  mine,
  openChainService,
  otherAddress,
  record,
  transactions,
  trust,
  turn,
  withIdentity,
  withSchema,
} from '../../testing/chain.ts'
import type { TestService } from '../../testing/service.ts'
import { openPublished } from './published.ts'

const missing = missingAnvil()
if (missing !== undefined) console.warn(`${missing}: the registries of ERC-8004 are not tested`)

async function settle(on: ChainService, service: TestService): Promise<void> {
  for (let round = 0; round < 3; round++) {
    await turn(service)
    await mine(on.chain, 3)
  }
  await turn(service)
}

/** Opens a service for agent 0, which the wallet owns for validation and another account owns for feedback. */
async function openFor(on: ChainService, sink: 'feedback' | 'validation'): Promise<TestService> {
  await using first = await on.open()
  await withIdentity(on, first)
  if (sink === 'feedback') {
    // transfer(uint256,address)
    const data = `0xb7760c8f${'0'.repeat(64)}${otherAddress.slice(2).padStart(64, '0')}`
    const from = on.env.TRUST_WALLET_ADDRESS
    await on.chain.ask('anvil_impersonateAccount', from)
    await on.chain.ask('eth_sendTransaction', { from, to: on.contracts.identity, data })
    await mine(on.chain, 1)
  }
  return on.open({
    TRUST_ATTEST_TO: sink,
    TRUST_AGENT_ID: '0',
    TRUST_REPUTATION_REGISTRY: on.contracts.reputation,
  })
}

describe.skipIf(missing !== undefined)('attestations in an ERC-8004 registry', () => {
  it.each(['feedback', 'validation'] as const)('are written once by %s, shown, and revoked', async (sink) => {
    await using on = await openChainService()
    await using service = await openFor(on, sink)
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-1', name: 'One' } })
    const attesting = listJobs(service.deps, service.services).find(({ name }) => name === 'attestations')!
    await attesting.run()
    const before = (await trust(service)).attestations[0]!
    await settle(on, service)
    // Each sweep submits the attestation again.
    await attesting.run()
    await settle(on, service)
    const made = (await transactions(service)).map(({ kind, state }) => [kind, state])
    expect(made).toEqual([...(sink === 'validation' ? [['ask', 'confirmed']] : []), ['attest', 'confirmed']])
    const { on_chain, ...rest } = (await trust(service)).attestations[0]!
    expect(rest).toEqual(before)
    expect(on_chain).toMatchObject({ sink, uid: expect.stringMatching(/^0x[0-9a-f]{64}$/), score: before.score })
    const receipt = await on.chain.ask('eth_getTransactionReceipt', on_chain!.tx_hash)
    expect(JSON.stringify(receipt)).toContain(before.hash.slice(2))

    const seen = async (hash = before.hash) => {
      const asked = {
        rpcUrl: on.chain.url,
        attester: on.env.TRUST_WALLET_ADDRESS!,
        validationRegistry: on.env.TRUST_VALIDATION_REGISTRY,
        reputationRegistry: on.contracts.reputation,
        agentId: '0',
        eas: undefined,
      }
      const published = await openPublished(asked)
      const state = await published.state(on_chain!, hash)
      published.close()
      return state
    }
    expect(await seen()).toBe('valid')
    expect(await seen(`0x${'a1'.repeat(32)}`)).toBe('missing')
    await (await service.services.chain!.planRevocation(on_chain!.uid))!.send!()
    await settle(on, service)
    expect(await seen()).toBe('revoked')
    service.clock.advance(3_600_000)
    await turn(service)
    expect((await trust(service)).attestations[0]).not.toHaveProperty('on_chain')
  })

  it.each(['feedback', 'validation'] as const)('are not confirmed by %s with another hash', async (sink) => {
    await using on = await openChainService()
    await using service = await openFor(on, sink)
    const hash = 'a1'.repeat(32)
    await service.services.chain!.submit([{ ...record(), hash: `0x${hash}` }])
    on.lies.answer = async (method, _params, truth) => {
      const body = await truth()
      return { body: /Receipt/.test(method) ? body.replaceAll(hash, '2'.repeat(64)) : body }
    }
    await settle(on, service)
    expect((await transactions(service)).at(-1)).toMatchObject({ kind: 'attest', state: 'sent' })
    on.lies.answer = undefined
    await settle(on, service)
    expect((await transactions(service)).at(-1)).toMatchObject({ kind: 'attest', state: 'confirmed' })
  })

  it('are refused as feedback for an agent that the wallet owns', async () => {
    await using on = await openChainService()
    await using first = await on.open()
    await withIdentity(on, first)
    await using service = await on.open({
      TRUST_ATTEST_TO: 'feedback',
      TRUST_AGENT_ID: '0',
      TRUST_REPUTATION_REGISTRY: on.contracts.reputation,
    })
    await service.services.chain!.submit([record()])
    await turn(service)
    expect(await transactions(service)).toMatchObject([
      { state: 'failed', error: expect.stringContaining('Self-feedback not allowed') },
    ])
    await turn(service)
    const events = await service.rows(
      `select severity, by_service from events where event_type = 'chain_transaction_failed'`,
    )
    expect(events).toEqual([{ severity: 'warning', by_service: 1 }])
    await withSchema(on, service)
    expect((await transactions(service)).at(-1)).toMatchObject({ kind: 'schema', state: 'confirmed' })
  })

  it('require an agent id, and validations also a registry', async () => {
    await using on = await openChainService()
    const refused = (env: Record<string, string>) =>
      on.open(env).then(
        () => 'opened',
        (fault: Error) => fault.message,
      )
    expect(await refused({ TRUST_ATTEST_TO: 'feedback', TRUST_REPUTATION_REGISTRY: on.contracts.reputation })).toBe(
      'TRUST_ATTEST_TO=feedback needs TRUST_AGENT_ID: set it to the agent that it is about.',
    )
    expect(await refused({ TRUST_ATTEST_TO: 'validation', TRUST_AGENT_ID: '0', TRUST_VALIDATION_REGISTRY: '' })).toBe(
      'TRUST_ATTEST_TO=validation needs TRUST_VALIDATION_REGISTRY: set it to the address of the registry.',
    )
  })
})
