import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { missingAnvil } from '../../../../../../test-servers/anvil.ts'
import { openChainService, otherAddress, testAddress, trust, withSchema } from '../../../testing/chain.ts'
import type { TestService } from '../../../testing/service.ts'
import { verifySelf } from './verify.ts'

const scoreOf = async (service: TestService) => (await verifySelf(service.deps))!.wv

const missing = missingAnvil()
if (missing !== undefined) console.warn(`${missing}: the wallet is not verified`)

describe.skipIf(missing !== undefined)('the check of the wallet', () => {
  it('scores a wallet without history at 40 and one with history at 0, and publishes the note', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    expect(await scoreOf(service)).toMatchObject({
      risk: 40,
      notes: 'The wallet has no on-chain history.',
      details: [`${testAddress} has sent no transaction on chain 31337.`],
    })
    await withSchema(on, service)
    const { row } = (await verifySelf(service.deps))!
    expect(row).toMatchObject({ wav_score: null, wv_score: 0, unified_score: 0, is_complete: 1 })
    expect((await trust(service)).verification.scores).toEqual({
      wav: { applicable: false, risk_score: 0, notes: 'No public endpoint is configured.' },
      wv: { applicable: true, risk_score: 0, notes: 'Wallet has on-chain history.' },
    })
  })

  it('adds risk for a contract, but not for an EIP-7702 delegation', async () => {
    await using on = await openChainService()
    await using service = await on.open()
    await withSchema(on, service)
    const code = (text: string) => on.chain.ask('anvil_setCode', testAddress, text)
    await code('0x600160015500')
    expect(await scoreOf(service)).toMatchObject({ risk: 60, notes: 'The wallet is a contract.' })
    await code(`0xef0100${otherAddress.slice(2)}`)
    expect(await scoreOf(service)).toMatchObject({ risk: 0 })
  })

  it('scores 100 for a listed address, and returns no score for an invalid list', async () => {
    await using on = await openChainService()
    const list = join(on.folder, 'bad')
    writeFileSync(list, `# known\n${testAddress.toLowerCase()}\n`)
    await using service = await on.open({ TRUST_BAD_ADDRESSES_FILE: list })
    expect(await scoreOf(service)).toMatchObject({
      risk: 100,
      notes: 'The wallet is on a list of bad addresses.',
    })
    writeFileSync(list, 'nonsense')
    const { wv, row } = (await verifySelf(service.deps))!
    expect(wv).toMatchObject({ risk: null, details: [expect.stringContaining('line 1 of')] })
    expect(row).toMatchObject({ unified_score: null, is_complete: 0 })
  })

  it.each([
    [
      'of another chain',
      { body: '{"jsonrpc":"2.0","id":1,"result":"0x1"}' },
      /serves chain 1, TRUST_CHAIN_ID is 31337/,
    ],
    ['with a huge answer', { body: `{"jsonrpc":"2.0","id":1,"result":"0x${'0'.repeat(100_000)}"}` }, /64 KiB/],
    ['that is away', { status: 503, body: 'no' }, /status 503/],
  ])('returns no score from a node %s', async (_what, answer, sentence) => {
    await using on = await openChainService()
    await using service = await on.open()
    on.lies.answer = () => answer
    const { wv, row } = (await verifySelf(service.deps))!
    expect(wv).toMatchObject({ risk: null, notes: 'The wallet could not be checked.' })
    expect(wv.details[0]).toMatch(sentence)
    expect(row.unified_score).toBeNull()
  })
})
