import { writeFileSync } from 'node:fs'
import { encodeAbiParameters, keccak256, parseAbiParameters, toBytes } from 'viem/utils'
import { describe, expect, it } from 'vitest'
import { missingAnvil } from '../../../../../../test-servers/anvil.ts'
import { listJobs } from '../../../jobs.ts'
import { otherAddress, testAddress, trust, withIdentity } from '../../../testing/chain.ts'
import { type ChainAgent, openAgentChain } from '../../../testing/chain-agent.ts'
import { dataUri, registrationFile } from '../../../testing/https-site.ts'
import type { TestService } from '../../../testing/service.ts'
import { verifySelf } from './verify.ts'

const missing = missingAnvil()
if (missing !== undefined) console.warn(`${missing}: agents of a chain are not verified`)

const verify = async (service: TestService) => (await verifySelf(service.deps))!
/** The third account of anvil, which nothing uses. */
const unused = '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC'
const selector = (signature: string) => keccak256(toBytes(signature)).slice(0, 10)
const text = (bytes: `0x${string}`) => encodeAbiParameters(parseAbiParameters('bytes'), [bytes])

/** Registers an agent of another account with this URI, and opens a service that names it. */
async function openWith(on: ChainAgent, uri: string, more: Record<string, string> = {}) {
  await on.send(otherAddress, { functionName: 'register', args: [uri] })
  return on.open({ TRUST_AGENT_ID: '0', ...more })
}

/** Replaces what the node answers to one function of the registry. */
function lie(on: ChainAgent, signature: string, result: string): void {
  on.lies.answer = async (method, [call], truth) => {
    const { data } = (call ?? {}) as { data?: string }
    if (method !== 'eth_call' || !data?.startsWith(selector(signature))) return 'pass'
    return { body: JSON.stringify({ ...JSON.parse(await truth()), result, error: undefined }) }
  }
}

describe.skipIf(missing !== undefined)('the check of an agent', () => {
  it('takes address and wallet from the registry and its file, and says what it did not check', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await withIdentity(on, service)
    on.agent.file = { ...registrationFile(`${on.agent.url}/agent`), image: 'https://a.example/i.svg' }
    on.agent.asked.length = 0
    const { row, wav, wv } = await verify(service)
    expect(on.agent.asked).toEqual(['/.well-known/agent-registration.json', '/agent'])
    expect([wav, wv]).toEqual([
      { risk: 0, notes: 'All endpoints reachable.', details: [] },
      { risk: 0, notes: 'Wallet has on-chain history.', details: [] },
    ])
    const uri = `${on.agent.url}/.well-known/agent-registration.json`
    expect(row).toMatchObject({
      url: null,
      wallet: testAddress,
      agent_registry: `eip155:31337:${on.contracts.identity}`,
      agent_id: '0',
      agent_uri: uri,
      agent_uri_hash: keccak256(toBytes(uri)),
      document_hash: keccak256(toBytes(JSON.stringify(on.agent.file))),
      applies: 'mcv',
      unified_score: 0,
      is_complete: 1,
    })
    const { verification, chain } = await trust(service)
    expect(verification).toMatchObject({
      unified_risk_score: 0,
      subject: 'agent',
      scored: ['wav', 'wv'],
      not_checked: ['mcv'],
      scores: { wav: { applicable: true, risk_score: 0 }, wv: { applicable: true, risk_score: 0 } },
    })
    expect(verification.scores.wv).not.toHaveProperty('error')
    expect(chain.erc8126_label).toBe('Self-attested scores after ERC-8126')
  })

  it('checks the wallet that the registry has for the agent, or its owner without one', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await withIdentity(on, service)
    await on.send(testAddress, { functionName: 'setWallet', args: [0n, unused] })
    expect(await verify(service)).toMatchObject({
      row: { wallet: unused },
      wv: { risk: 40, notes: 'The wallet has no on-chain history.', details: [`${unused} has sent no transaction.`] },
    })
    await on.send(testAddress, { functionName: 'transfer', args: [0n, otherAddress] })
    expect(await verify(service)).toMatchObject({ row: { wallet: otherAddress }, wv: { risk: 0 } })
    lie(on, 'ownerOf(uint256)', `0x${'0'.repeat(64)}`)
    expect(await verify(service)).toMatchObject({ wav: { risk: 0 }, wv: { risk: null, error: 'InvalidAddress' } })
  })

  it('has no score for a contract, whose history a nonce does not show, but for an EIP-7702 delegation', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await withIdentity(on, service)
    const code = (bytes: string) => on.chain.ask('anvil_setCode', testAddress, bytes)
    await code('0x600160015500')
    const { wv, row, scored } = await verify(service)
    expect(wv).toMatchObject({
      risk: null,
      error: 'VerificationFailed',
      notes: 'The wallet is a contract, whose history was not checked. It is on no list of bad addresses.',
    })
    expect([row.unified_score, row.is_complete, scored]).toEqual([0, 0, ['wav']])
    await code(`0xef0100${otherAddress.slice(2)}`)
    expect((await verify(service)).wv).toMatchObject({ risk: 0 })
  })

  it('scores 100 for a listed wallet, also for a contract', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await withIdentity(on, service)
    writeFileSync(on.list, `# known\n${testAddress.toLowerCase()}\n`)
    const listed = { risk: 100, notes: 'The wallet is on a list of bad addresses.' }
    expect((await verify(service)).wv).toMatchObject(listed)
    await on.chain.ask('anvil_setCode', testAddress, '0x600160015500')
    expect((await verify(service)).wv).toMatchObject(listed)
  })

  it('has no score for a wallet without a usable list, and says what was checked', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await withIdentity(on, service)
    const unlisted = 'Not compared with a list of bad addresses. Wallet has on-chain history.'
    for (const [content, detail] of [
      ['nonsense', 'line 1 of'],
      ['', 'has no address'],
    ]) {
      writeFileSync(on.list, content!)
      const { wv, row } = await verify(service)
      expect(wv).toMatchObject({ risk: null, notes: unlisted, error: 'VerificationFailed' })
      expect(wv.details).toEqual([expect.stringContaining(detail!)])
      expect(row).toMatchObject({ wv_score: null, wv_error: 'VerificationFailed', is_complete: 0 })
    }
    await using without = await on.open({ TRUST_BAD_ADDRESSES_FILE: '' }, service)
    expect((await verify(without)).wv).toMatchObject({
      risk: null,
      notes: unlisted,
      details: ['TRUST_BAD_ADDRESSES_FILE is not set: set it to a list of addresses that are known as bad.'],
    })
    const { scores, scored, not_checked } = (await trust(without)).verification
    expect(scores.wv).toEqual({
      applicable: false,
      risk_score: 0,
      notes: unlisted,
      error: 'VerificationFailed',
      error_code: '0x04',
    })
    expect([scored, not_checked]).toEqual([['wav'], ['wv']])
  })

  it.each([
    ['ipfs://bafybeigdyrzt', 'InvalidURL', '0x02', /begins with ipfs:/],
    ['', 'InvalidURL', '0x02', /begins with no URI/],
    [dataUri('nonsense'), 'VerificationFailed', '0x04', /not JSON/],
    [
      dataUri({
        ...registrationFile('https://a.example/'),
        registrations: [{ agentId: 0, agentRegistry: 'eip155:1:0x1' }],
      }),
      'VerificationFailed',
      '0x04',
      /do not name agent 0/,
    ],
    ['https://169.254.169.254/latest', 'VerificationFailed', '0x04', /169.254.169.254/],
    ['https://127.0.0.1:1/agent.json', 'VerificationFailed', '0x04', /cannot be read/],
  ])('has no score of any kind if the registry has %j', async (uri, error, error_code, detail) => {
    await using on = await openAgentChain()
    await using service = await openWith(on, uri)
    const { wav, wv, row } = await verify(service)
    for (const score of [wav, wv]) {
      expect(score).toMatchObject({ risk: null, error })
      expect(score.details[0]).toMatch(detail)
    }
    expect(row).toMatchObject({ unified_score: null, document_hash: null, agent_uri_hash: keccak256(toBytes(uri)) })
    const { verification, chain } = await trust(service)
    expect(verification).toMatchObject({
      unified_risk_score: null,
      scores: { wav: { applicable: false, error, error_code }, wv: { applicable: false, error, error_code } },
      not_checked: ['wav', 'wv'],
    })
    expect(chain.erc8126_label).toBe('ERC-8126 verification without a score')
    expect(on.agent.asked).toEqual([])
  })

  it('has no web score without an endpoint, and none for an agent that does not exist', async () => {
    await using on = await openAgentChain()
    await using service = await openWith(on, dataUri({ ...registrationFile('x'), services: [] }))
    expect(await verify(service)).toMatchObject({ wav: { risk: null, error: 'InvalidURL' }, wv: { risk: 0 } })
    await using nobody = await on.open({ TRUST_AGENT_ID: '7' })
    const none = { risk: null, error: 'AgentNotFound' }
    expect(await verify(nobody)).toMatchObject({ wav: none, wv: none, row: { agent_uri_hash: null } })
  })

  it('is refused by a contract that has owners, but neither wallets nor URIs', async () => {
    await using on = await openAgentChain()
    await using service = await openWith(on, dataUri(registrationFile(`${on.agent.url}/agent`)))
    on.lies.answer = (_method, [call]) => {
      const { data } = (call ?? {}) as { data?: string }
      const isWallet = data?.startsWith(selector('getAgentWallet(uint256)'))
      return isWallet ? { body: '{"jsonrpc":"2.0","id":3,"error":{"code":3,"message":"execution reverted"}}' } : 'pass'
    }
    const none = { risk: null, error: 'ProviderUnavailable' }
    expect(await verify(service)).toMatchObject({ wav: none, wv: none })
  })

  // SSRF: the owner of an agent chooses both addresses.
  it('asks nothing in a private network that is not allowed, for the file or an endpoint', async () => {
    await using on = await openAgentChain()
    const closed = { WARDLINE_ALERT_ALLOW_CIDRS: '' }
    await using service = await openWith(on, `${on.agent.url}/.well-known/agent-registration.json`, closed)
    const none = { risk: null, error: 'VerificationFailed' }
    expect(await verify(service)).toMatchObject({ wav: none, wv: none })
    await on.send(otherAddress, { functionName: 'register', args: [dataUri(registrationFile(on.agent.url))] })
    await using inline = await on.open({ ...closed, TRUST_AGENT_ID: '1' })
    expect(await verify(inline)).toMatchObject({ wav: none, wv: { risk: 0 } })
    expect(on.agent.asked).toEqual([])
  })

  it('keeps a long data URI by its hash alone', async () => {
    await using on = await openAgentChain()
    const uri = dataUri({ ...registrationFile(`${on.agent.url}/agent`), description: 'x'.repeat(10_000) })
    await using service = await openWith(on, uri)
    expect((await verify(service)).row).toMatchObject({
      agent_uri: null,
      agent_uri_hash: keccak256(toBytes(uri)),
      document_hash: expect.stringMatching(/^0x/),
      wav_score: 0,
    })
  })

  it.each([
    [
      'whose tokenURI is no ABI',
      'tokenURI(uint256)',
      `0x${'f'.repeat(2_000)}`,
      'ProviderUnavailable',
      /another format/,
    ],
    ['whose tokenURI is empty', 'tokenURI(uint256)', '0x', 'ProviderUnavailable', /another format/],
    ['whose tokenURI never ends', 'tokenURI(uint256)', `0x${'0'.repeat(200_000)}`, 'ProviderUnavailable', /64 KiB/],
    ['whose tokenURI is no UTF-8', 'tokenURI(uint256)', text(`0x${'ff'.repeat(40)}`), 'InvalidURL', /no URI/],
    ['whose tokenURI has a NUL', 'tokenURI(uint256)', text('0x68747470733a2f2f00'), 'InvalidURL', /begins with https:/],
    ['whose wallet is no address', 'getAgentWallet(uint256)', '0x01', 'ProviderUnavailable', /another format/],
    ['whose owner is no number', 'ownerOf(uint256)', 'x', 'ProviderUnavailable', /does not define/],
  ])('has no score by a node %s', async (_what, signature, result, error, detail) => {
    await using on = await openAgentChain()
    await using service = await openWith(on, `${on.agent.url}/.well-known/agent-registration.json`)
    lie(on, signature, result)
    const { wav, wv, row } = await verify(service)
    for (const score of [wav, wv])
      expect(score).toMatchObject({ risk: null, error, details: [expect.stringMatching(detail)] })
    expect(row).toMatchObject({ unified_score: null, agent_uri: null })
    expect(on.agent.asked).toEqual([])
  })

  it.each([
    [
      'of another chain',
      { body: '{"jsonrpc":"2.0","id":1,"result":"0x1"}' },
      /serves chain 1, TRUST_CHAIN_ID is 31337/,
    ],
    ['that is away', { status: 503, body: 'no' }, /status 503/],
  ])('has no score by a node %s', async (_what, answer, detail) => {
    await using on = await openAgentChain()
    await using service = await openWith(on, dataUri(registrationFile(`${on.agent.url}/agent`)))
    on.lies.answer = () => answer
    const none = { risk: null, error: 'ProviderUnavailable', details: [expect.stringMatching(detail)] }
    expect(await verify(service)).toMatchObject({ wav: none, wv: none })
    expect(on.agent.asked).toEqual([])
  })

  it('has no wallet score if the node answers no more after the registry', async () => {
    await using on = await openAgentChain()
    await using service = await openWith(on, dataUri(registrationFile(`${on.agent.url}/agent`)))
    on.lies.answer = (method) => (method === 'eth_getCode' ? { status: 503, body: '' } : 'pass')
    expect(await verify(service)).toMatchObject({ wav: { risk: 0 }, wv: { risk: null, error: 'ProviderUnavailable' } })
  })

  it('waits for an identity, then verifies it, and again after an hour while something is missing', async () => {
    await using on = await openAgentChain()
    await using service = await on.open({ TRUST_VERIFY: 'true', WARDLINE_PUBLIC_URL: '' })
    const { run } = listJobs(service.deps, service.services).find(({ name }) => name === 'verification')!
    const rows = () => service.rows<{ agent_id: string }>('select agent_id from verifications')
    await run()
    expect(await rows()).toEqual([])
    await withIdentity(on, service)
    await run()
    // The file, a data URI, names no endpoint, because there is no public URL.
    expect((await trust(service)).verification).toMatchObject({
      scored: ['wv'],
      not_checked: ['wav'],
      scores: { wav: { error_code: '0x02' } },
    })
    await run()
    expect(await rows()).toEqual([{ agent_id: '0' }])
    service.clock.advance(3_600_000)
    await run()
    expect(await rows()).toHaveLength(2)
  })

  it('shows nothing of what earlier versions verified by the settings, and what they posted no more', async () => {
    await using on = await openAgentChain()
    await using service = await on.open()
    await withIdentity(on, service)
    await service.execute(
      `insert into verifications (id, at, url, wallet, chain_id, wav_score, wav_notes, wv_score, wv_notes, unified_score,
        is_complete, request_hash, report) values ('old', ${service.clock.now()}, '${on.agent.url}/trust', '${testAddress}',
        31337, null, 'x', 0, 'Wallet has on-chain history.', 0, 1, '0x1', '{}')`,
    )
    expect((await trust(service)).verification).not.toHaveProperty('self_attested')
    await using without = await on.open(
      { TRUST_RPC_URL: '', TRUST_WALLET_KEY_FILE: '', TRUST_ATTEST_ON_CHAIN: 'false' },
      service,
    )
    expect((await trust(without)).verification).not.toHaveProperty('self_attested')
    await service.execute(`update verifications set wallet = null, wav_score = 0, wv_score = null where id = 'old'`)
    expect((await trust(without)).verification).toMatchObject({ subject: 'configured_address', scored: ['wav'] })
  })
})
