import { describe, expect, it } from 'vitest'
import { missingAnvil } from '../../../../../test-servers/anvil.ts'
import { type ChainService, mine, openChainService, otherAddress } from '../../testing/chain.ts'
import {
  attest,
  hash,
  hour,
  openShowing,
  others,
  tagsOf,
  thirdAddress,
  warnings,
} from '../../testing/other-attesters.ts'

const missing = missingAnvil()
if (missing !== undefined) console.warn(`${missing}: falsified attestations by others are not tested`)

/** Lets the node answer a method with what `lie` makes of the true result; undefined is an error of the node. */
function lying(on: ChainService, method: string, lie: (result: unknown, params: unknown[]) => unknown): void {
  on.lies.answer = async (asked, params, truth) => {
    if (asked !== method) return 'pass'
    const { id, result } = JSON.parse(await truth())
    const changed = lie(result, params)
    const answer =
      changed === undefined ? { error: { code: -32602, message: 'range exceeds limit' } } : { result: changed }
    return { body: JSON.stringify({ jsonrpc: '2.0', id, ...answer }) }
  }
}

type Logs = { address: string; topics: string[]; data: string; blockNumber: string }[]
const topicOf = (address: string) => `0x${address.slice(2).toLowerCase().padStart(64, '0')}`

describe.skipIf(missing !== undefined)('a node that lies about attestations by others', () => {
  const changes: [string, (log: Logs[number]) => Logs[number]][] = [
    ['another account', (log) => ({ ...log, topics: log.topics.with(2, topicOf(thirdAddress)) })],
    ['another recipient', (log) => ({ ...log, topics: log.topics.with(1, topicOf(thirdAddress)) })],
    ['another event', (log) => ({ ...log, topics: log.topics.with(0, hash) })],
    ['another contract', (log) => ({ ...log, address: thirdAddress })],
    ['another block', (log) => ({ ...log, blockNumber: '0xffffff' })],
    ['another form', (log) => ({ ...log, data: '0x12' })],
  ]
  it.each(changes)('is refused with a log of %s, and read again once it tells the truth', async (_what, change) => {
    await using on = await openChainService()
    await using service = await openShowing(on)
    await attest(on)
    await mine(on.chain, 3)
    lying(on, 'eth_getLogs', (logs) => (logs as Logs).map(change))
    await hour(service)
    expect(await others(service)).toEqual([])
    expect(warnings(service).length).toBeGreaterThan(0)
    on.lies.answer = undefined
    await hour(service)
    expect(await tagsOf(service)).toEqual(['audit'])
  })

  // The logs only say where to look: the contract knows the attester, the recipient and the revocation.
  it.each([
    ['another account', { from: thirdAddress }],
    ['another recipient', { recipient: thirdAddress }],
  ])('cannot have an attestation of %s shown', async (_what, other) => {
    await using on = await openChainService()
    await using service = await openShowing(on)
    await attest(on)
    await attest(on, { tag: 'false', ...other })
    await mine(on.chain, 3)
    const all = await on.chain.ask<Logs>('eth_getLogs', { address: on.contracts.eas, fromBlock: '0x0' })
    const [mine1, false1] = all.map(({ data }) => data)
    lying(on, 'eth_getLogs', (logs) => (logs as Logs).flatMap((log) => [log, { ...log, data: false1 }]))
    await hour(service)
    expect((await others(service)).map(({ uid }) => uid)).toEqual([mine1])
  })

  it('about the last index of feedback, or that answers with garbage, ends nothing', async () => {
    await using on = await openChainService()
    await using service = await openShowing(on)
    await attest(on)
    await mine(on.chain, 3)
    const feedback = on.contracts.reputation.toLowerCase()
    for (const answer of [`0x${'f'.repeat(64)}`, '0x', `0x${'f'.repeat(512)}`]) {
      lying(on, 'eth_call', (result, [call]) =>
        (call as { to: string }).to.toLowerCase() === feedback ? answer : result,
      )
      await hour(service)
      expect(await others(service)).toEqual([])
      expect(warnings(service).length).toBeGreaterThan(0)
    }
    on.lies.answer = undefined
    await hour(service)
    expect(await tagsOf(service)).toEqual(['audit'])
  })

  it('or refuses many blocks at once, is asked for fewer', async () => {
    await using on = await openChainService()
    await using service = await openShowing(on)
    await attest(on)
    await mine(on.chain, 40)
    const spans: number[] = []
    lying(on, 'eth_getLogs', (logs, [filter]) => {
      const { fromBlock, toBlock } = filter as { fromBlock: string; toBlock: string }
      spans.push(Number(toBlock) - Number(fromBlock) + 1)
      return spans.at(-1)! > 10 ? undefined : logs
    })
    await hour(service)
    expect(await tagsOf(service)).toEqual(['audit'])
    expect(spans.filter((span) => span > 10).length).toBeLessThan(10)
    expect(warnings(service)).toEqual([])
  })

  // The turn also sends transactions, so what one account wrote must not keep it busy.
  it.each(['many blocks', 'one block'])('is asked a limited number of times about a flood in %s', async (where) => {
    await using on = await openChainService()
    await using service = await openShowing(on)
    if (where === 'one block') await on.chain.ask('evm_setAutomine', false)
    for (let made = 0; made < 60; made++) await attest(on, { tag: `flood ${made}`, expires: 1_900_000_000 })
    await on.chain.ask('evm_setAutomine', true)
    await mine(on.chain, 3)
    service.clock.advance(Date.UTC(2031) - service.clock.now())
    on.asked.length = 0
    service.clock.advance(600_000)
    await service.services.chain!.run()
    // 20 requests, the attestations of the last range, and what the other checks of a turn ask.
    expect(on.asked.length).toBeLessThan(20 + 20 + 12)
  })

  it('is asked for as many blocks as before about an account when another one floods', async () => {
    await using on = await openChainService()
    await using service = await openShowing(on, { TRUST_OTHER_ATTESTERS: `${otherAddress},${thirdAddress}` })
    await mine(on.chain, 2_000)
    const spans = { flood: [] as number[], other: [] as number[] }
    lying(on, 'eth_getLogs', (logs, [filter]) => {
      const { fromBlock, toBlock, topics } = filter as { fromBlock: string; toBlock: string; topics: string[] }
      const count = Number(toBlock) - Number(fromBlock) + 1
      const isFlood = topics[2] === topicOf(otherAddress)
      spans[isFlood ? 'flood' : 'other'].push(count)
      return isFlood && count > 1 ? undefined : logs
    })
    service.clock.advance(600_000)
    await service.services.chain!.run()
    expect(spans).toEqual({
      flood: [1_000, 500, 250, 125, 63, 32, 16, 8, 4, 2],
      other: [1_000, 1_000, expect.anything()],
    })
  })

  it.each([
    ['before', false],
    ['after', true],
  ])('about the newest block hides nothing that comes later, %s the first turn', async (_what, isRead) => {
    await using on = await openChainService()
    await using service = await openShowing(on)
    if (isRead) await hour(service)
    lying(on, 'eth_blockNumber', () => '0xfffff')
    await hour(service)
    on.lies.answer = undefined
    await attest(on)
    await mine(on.chain, 3)
    await hour(service)
    expect(await tagsOf(service)).toEqual(['audit'])
  })

  it('is not asked in a request for the public summary', async () => {
    await using on = await openChainService()
    await using service = await openShowing(on)
    await attest(on)
    await mine(on.chain, 3)
    await hour(service)
    on.lies.answer = () => 'silent'
    const before = on.asked.length
    expect(await tagsOf(service)).toEqual(['audit'])
    expect(on.asked.length).toBe(before)
  })
})
