import type { Hex } from 'viem'
import { encodeFunctionData } from 'viem/utils'
import { describe, expect, it } from 'vitest'
import { missingAnvil } from '../../../../../test-servers/anvil.ts'
import { countOf, mine, openChainService, otherAddress, testAddress, trust } from '../../testing/chain.ts'
import {
  abi,
  attest,
  give,
  hash,
  hour,
  openShowing,
  others,
  send,
  shown,
  tagsOf,
  thirdAddress,
  warnings,
} from '../../testing/other-attesters.ts'
import type { TestService } from '../../testing/service.ts'
import { registerSchema, schemaUid } from './eas.ts'

const stored = (service: TestService) => service.rows('select uid from chain_other_attestations')

const missing = missingAnvil()
if (missing !== undefined) console.warn(`${missing}: attestations by others are not tested`)

describe.skipIf(missing !== undefined)('attestations by others', () => {
  it('are those of the named accounts about this deployment, with their numbers as published', async () => {
    await using on = await openChainService()
    await using service = await openShowing(on)
    await give(on, otherAddress, 9_977n, 2, 'uptime', 'week')
    await give(on, thirdAddress, 1n, 0, 'stranger')
    await attest(on)
    await attest(on, { from: thirdAddress, tag: 'stranger' })
    await attest(on, { recipient: thirdAddress, tag: 'elsewhere' })
    await attest(on, { data: '0x1234' })
    await mine(on.chain, 3)
    await hour(service)
    const network = { id: 'eip155:31337', name: 'eip155:31337', is_test_network: null }
    const found = await others(service)
    expect(found).toHaveLength(3)
    for (const item of found) expect(item).toMatchObject({ attester: otherAddress, network })
    const [feedback, ours, unknown] = [
      found.find(({ sink }) => sink === 'feedback'),
      found.find(({ hash }) => hash !== undefined),
      found.find(({ sink, hash }) => sink === 'eas' && hash === undefined),
    ]
    expect(feedback).toEqual({
      ...{ sink: 'feedback', attester: otherAddress, uid: '1', at: null, seen_at: expect.any(String) },
      ...{ contract: on.contracts.reputation, network: expect.anything() },
      explorer_url: `https://blockscan.com/address/${on.contracts.reputation}`,
      ...{ namespace: 'uptime', tag: 'week', value: '9977', decimals: 2 },
    })
    expect(ours).toMatchObject({
      ...{ sink: 'eas', uid: expect.stringMatching(/^0x[0-9a-f]{64}$/), contract: on.contracts.eas, schema: schemaUid },
      ...{ hash, namespace: 'auditor.v1', tag: 'audit', period: '2026-W03', value: '87', decimals: 0 },
      explorer_url: expect.stringMatching(/^https:\/\/blockscan\.com\/tx\/0x[0-9a-f]{64}$/),
    })
    expect(Math.abs(Date.parse(ours!.at!) - Date.now())).toBeLessThan(600_000)
    // Data that the schema does not describe.
    expect(unknown).toMatchObject({ sink: 'eas', schema: schemaUid, at: expect.any(String) })
    expect(unknown).not.toHaveProperty('value')
    expect(unknown).not.toHaveProperty('namespace')
    expect(warnings(service)).toEqual([])
  })

  it('appear once they are confirmed, not a block earlier, and go with a reorganisation', async () => {
    await using on = await openChainService()
    await using service = await openShowing(on)
    await hour(service)
    const before = await on.chain.ask('evm_snapshot')
    await attest(on)
    await give(on, otherAddress, 1n, 0, 'feedback')
    await mine(on.chain, 2)
    await hour(service)
    expect(await others(service)).toEqual([])
    await mine(on.chain, 1)
    await hour(service)
    expect((await tagsOf(service)).toSorted()).toEqual(['', 'audit'])
    await on.chain.ask('evm_revert', before)
    await mine(on.chain, 9)
    await hour(service)
    expect(await others(service)).toEqual([])
  })

  it('disappear once they are revoked or have expired', async () => {
    await using on = await openChainService()
    await using service = await openShowing(on)
    const end = service.clock.now() + 10 * 3_600_000
    await attest(on, { tag: 'revoked' })
    await attest(on, { tag: 'expires', expires: Math.floor(end / 1000) })
    await attest(on, { tag: 'kept' })
    await give(on, otherAddress, 1n, 0, '', 'revoked')
    await give(on, otherAddress, -15n, 1, '', 'given')
    await mine(on.chain, 3)
    await hour(service)
    const before = await others(service)
    expect(before.map(({ tag }) => tag).toSorted()).toEqual(['expires', 'given', 'kept', 'revoked', 'revoked'])
    const uid = before.find(({ tag, sink }) => tag === 'revoked' && sink === 'eas')!.uid as Hex
    const args = [{ schema: schemaUid as Hex, data: { uid, value: 0n } }] as const
    await send(on, otherAddress, on.contracts.eas, encodeFunctionData({ abi, functionName: 'revoke', args }))
    const feedback = encodeFunctionData({ abi, functionName: 'revokeFeedback', args: [0n, 1n] })
    await send(on, otherAddress, on.contracts.reputation, feedback)
    await mine(on.chain, 3)
    await hour(service)
    const after = await others(service)
    expect(after.map(({ tag }) => tag).toSorted()).toEqual(['expires', 'given', 'kept'])
    expect(after.find(({ tag }) => tag === 'given')).toMatchObject({ uid: '2', value: '-15', decimals: 1 })
    // No node is needed to see that the time is over.
    on.lies.answer = () => ({ status: 500, body: '' })
    service.clock.advance(end - service.clock.now())
    expect((await tagsOf(service)).toSorted()).toEqual(['given', 'kept'])
  })

  it('are found however long before the service they were made, each block once', async () => {
    await using on = await openChainService()
    await send(on, testAddress, on.contracts.schemas, registerSchema(on.contracts.schemas).data)
    await mine(on.chain, 1)
    await attest(on, { tag: 'old' })
    await mine(on.chain, 1_100)
    const ranges: [number, number][] = []
    on.lies.answer = (method, params) => {
      if (method === 'eth_getLogs') {
        const [{ fromBlock, toBlock }] = params as [{ fromBlock: string; toBlock: string }]
        ranges.push([Number(fromBlock), Number(toBlock)])
      }
      return 'pass'
    }
    await using service = await openShowing(on)
    const head = Number(await on.chain.ask('eth_blockNumber'))
    await hour(service)
    expect(await tagsOf(service)).toEqual(['old'])
    const read = () => ranges.flatMap(([from, to]) => Array.from({ length: to - from + 1 }, (_, at) => from + at))
    expect(Math.max(...ranges.map(([from, to]) => to - from + 1))).toBe(1_000)
    expect(read().toSorted((one, other) => one - other)).toEqual(Array.from({ length: head - 1 }, (_, at) => at))
    // A restart continues.
    ranges.length = 0
    await attest(on, { tag: 'new' })
    await mine(on.chain, 3)
    await using again = await on.open(shown(on), service)
    await hour(again)
    expect(ranges).toEqual([[head - 1, head + 1]])
    expect((await tagsOf(again)).toSorted()).toEqual(['new', 'old'])
  })

  it('go when the account, the wallet, the contract or the agent is no longer configured, and only then', async () => {
    await using on = await openChainService()
    await using service = await openShowing(on, { TRUST_OTHER_ATTESTERS: `${otherAddress},${thirdAddress}` })
    await attest(on, { tag: 'other' })
    await attest(on, { tag: 'third', from: thirdAddress })
    await give(on, otherAddress, 1n, 0, '', 'feedback')
    await mine(on.chain, 3)
    await hour(service)
    expect((await tagsOf(service)).toSorted()).toEqual(['feedback', 'other', 'third'])
    const elsewhere = { TRUST_EAS_ADDRESS: on.contracts.validation, TRUST_REPUTATION_REGISTRY: on.contracts.schemas }
    for (const [env, left] of [
      [{ TRUST_OTHER_ATTESTERS: thirdAddress }, ['third']],
      [{ TRUST_AGENT_ID: '7' }, ['other']],
      [elsewhere, []],
    ] as const) {
      // Not shown at once, before the node was asked.
      await using changed = await on.open({ ...shown(on), ...env }, service)
      expect(await tagsOf(changed)).toEqual(left)
    }
    expect(await stored(service)).toHaveLength(3)
    await using fewer = await on.open(shown(on), service)
    await hour(fewer)
    expect((await tagsOf(fewer)).toSorted()).toEqual(['feedback', 'other'])
    expect(await stored(service)).toHaveLength(2)
    await using none = await on.open({}, service)
    await hour(none)
    expect(await trust(none)).not.toHaveProperty('attestations_by_others')
    expect(await stored(service)).toEqual([])
    await using back = await on.open(shown(on), service)
    await hour(back)
    expect((await tagsOf(back)).toSorted()).toEqual(['feedback', 'other'])
  })

  // The praise of another party's agent would be shown as that of this one.
  it('contain feedback only about an agent that the registry gives to the wallet', async () => {
    await using on = await openChainService()
    await using service = await openShowing(on)
    const args = [0n, thirdAddress] as const
    await send(on, testAddress, on.contracts.identity, encodeFunctionData({ abi, functionName: 'transfer', args }))
    await give(on, otherAddress, 1n, 0, 'feedback')
    await mine(on.chain, 3)
    await hour(service)
    expect((await trust(service)).identity.status).toBe('unverified')
    expect(await others(service)).toEqual([])
  })

  it('are the newest ten of an account at each place', async () => {
    await using on = await openChainService()
    await using service = await openShowing(on)
    for (let number = 1; number <= 12; number++) {
      await attest(on, { score: number })
      await give(on, otherAddress, BigInt(number), 0, '')
      await mine(on.chain, 1)
    }
    await mine(on.chain, 3)
    await hour(service)
    const found = await others(service)
    const newest = ['3', '4', '5', '6', '7', '8', '9', '10', '11', '12']
    for (const sink of ['eas', 'feedback']) {
      const values = found.filter((item) => item.sink === sink).map(({ value }) => Number(value))
      expect(values.toSorted((one, other) => one - other).map(String), sink).toEqual(newest)
    }
  })

  // What an account writes is its choice: nothing of it may be obeyed, or keep the rest from being read.
  it('are cut and without hidden characters, and one that is too large to be read hides no other', async () => {
    await using on = await openChainService()
    await using service = await openShowing(on)
    const hostile = `\u202e<script>\u0000${'x'.repeat(3_000)}`
    // Each of the large ones fills a block, and the chain mines in order only what fits.
    for (const write of [
      () => attest(on, { tag: hostile }),
      () => give(on, otherAddress, 1n, 0, hostile, 'y'.repeat(33_000)),
      () => attest(on, { data: `0x${'ff'.repeat(33_000)}` }),
      () => give(on, otherAddress, 2n, 0, hostile),
    ]) {
      await write()
      await mine(on.chain, 1)
    }
    await mine(on.chain, 3)
    expect(await countOf(on)).toBe(2)
    await hour(service)
    const found = await others(service)
    expect(found.map(({ value }) => value).toSorted()).toEqual(['2', '87'])
    for (const { namespace, tag } of found) {
      for (const text of [namespace!, tag!]) {
        expect(text.length).toBeLessThanOrEqual(100)
        expect(text).not.toMatch(/[\u0000-\u001f\u202e]/)
      }
    }
    expect(found.find(({ sink }) => sink === 'eas')!.tag).toMatch(/^<script> x+…$/)
    expect(warnings(service)).toEqual([])
  })

  it('are read on after more of them than fit into one response', async () => {
    await using on = await openChainService()
    await using service = await openShowing(on)
    await mine(on.chain, 50)
    for (let number = 0; number < 110; number++) {
      await attest(on, { score: number % 100, tag: 'flood' })
      if (number % 10 === 9) await mine(on.chain, 1)
    }
    await mine(on.chain, 3)
    await attest(on, { tag: 'last' })
    await mine(on.chain, 3)
    await hour(service)
    const tags = await tagsOf(service)
    expect(tags).toHaveLength(10)
    expect(tags).toContain('last')
  })
})
