import { decodeEventLog, encodeFunctionData, keccak256, parseAbi } from 'viem/utils'
import { describe, expect, it } from 'vitest'
import { missingAnvil } from '../../../../../test-servers/anvil.ts'
import { listJobs } from '../../jobs.ts'
import {
  type ChainService,
  mine,
  openChainService,
  otherAddress,
  record,
  testAddress,
  transactions,
  trust,
  turn,
  withIdentity,
  withSchema,
} from '../../testing/chain.ts'
import type { TestService } from '../../testing/service.ts'
import { dataUriOf } from './data-uri.ts'
import { hashOf } from './documents.ts'
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

const abi = parseAbi([
  'function giveFeedback(uint256 agentId, int128 value, uint8 valueDecimals, string tag1, string tag2, string endpoint, string feedbackURI, bytes32 feedbackHash)',
  'function validationResponse(bytes32 requestHash, uint8 response, string responseURI, bytes32 responseHash, string tag)',
  'event NewFeedback(uint256 indexed agentId, address indexed clientAddress, uint64 feedbackIndex, int128 value, uint8 valueDecimals, string indexed indexedTag1, string tag1, string tag2, string endpoint, string feedbackURI, bytes32 feedbackHash)',
  'event ValidationResponse(address indexed validator, uint256 indexed agentId, bytes32 indexed requestHash, uint8 response, string responseURI, bytes32 responseHash, string tag)',
])

/** URI and hash in the event of a transaction, and the bytes of the document. */
async function writtenBy(on: ChainService, txHash: string) {
  type Logs = { topics: [`0x${string}`, ...`0x${string}`[]]; data: `0x${string}` }[]
  const { logs } = await on.chain.ask<{ logs: Logs }>('eth_getTransactionReceipt', txHash)
  const { eventName, args } = decodeEventLog({ abi, ...logs.at(-1)! })
  const [uri, hash] =
    eventName === 'NewFeedback' ? [args.feedbackURI, args.feedbackHash] : [args.responseURI, args.responseHash]
  const content = Buffer.from(uri.split('base64,')[1] ?? '', 'base64')
  return { uri, hash, content, document: JSON.parse(content.toString()) }
}

/** What a stranger finds who verifies a published attestation. */
async function seenBy(on: ChainService, onChain: object, hash: string) {
  const published = await openPublished({
    rpcUrl: on.chain.url,
    // In lower case, as explorers show addresses.
    attester: on.env.TRUST_WALLET_ADDRESS!.toLowerCase(),
    validationRegistry: on.env.TRUST_VALIDATION_REGISTRY,
    reputationRegistry: on.contracts.reputation,
    agentId: '0',
    eas: undefined,
  })
  const state = await published.state(onChain as never, hash)
  published.close()
  return state
}
const valid = { isRevoked: false, isBare: false }
const revoked = { isRevoked: true, isBare: false }

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
    const { uri, hash: documentHash, content, document } = await writtenBy(on, on_chain!.tx_hash)
    expect(uri).toMatch(/^data:application\/json;base64,/)
    expect(keccak256(content)).toBe(documentHash)
    const { hash: attested, at, namespace, period, score, summary, tag, title, type } = before
    expect(document.attestation).toEqual({ hash: attested, at, namespace, period, score, summary, tag, title, type })

    const seen = (hash = before.hash) => seenBy(on, on_chain!, hash)
    expect(await seen()).toEqual(valid)
    expect(await seen(`0x${'a1'.repeat(32)}`)).toBe('missing')
    await (await service.services.chain!.planRevocation(on_chain!.uid))!.send!()
    await settle(on, service)
    expect(await seen()).toEqual(revoked)
    service.clock.advance(3_600_000)
    await turn(service)
    expect((await trust(service)).attestations[0]).not.toHaveProperty('on_chain')
  })

  const asHex = (text: string) => Buffer.from(text).toString('hex')
  it.each([
    ['feedback', 'another URI', 'eyJ', 'eyK'],
    ['validation', 'another URI', 'eyJ', 'eyK'],
    ['feedback', 'no document', 'data:application', 'nota:application'],
    ['validation', 'no document', 'data:application', 'nota:application'],
  ] as const)('are not confirmed by %s while the node shows %s', async (sink, _what, part, other) => {
    await using on = await openChainService()
    await using service = await openFor(on, sink)
    await service.services.chain!.submit([record()])
    on.lies.answer = async (method, _params, truth) => {
      const body = await truth()
      return { body: /Receipt/.test(method) ? body.replaceAll(asHex(part), asHex(other)) : body }
    }
    await settle(on, service)
    expect((await transactions(service)).at(-1)).toMatchObject({ kind: 'attest', state: 'sent' })
    on.lies.answer = undefined
    await settle(on, service)
    expect((await transactions(service)).at(-1)).toMatchObject({ kind: 'attest', state: 'confirmed' })
  })

  it('have the fields that ERC-8004 demands of a feedback file, and those of a report', async () => {
    await using on = await openChainService()
    await using feedback = await openFor(on, 'feedback')
    await feedback.services.chain!.submit([record()])
    await settle(on, feedback)
    const made = "select tx_hash from chain_transactions where state = 'confirmed' and kind = 'attest'"
    const [given] = await feedback.rows<{ tx_hash: string }>(made)
    expect((await writtenBy(on, given!.tx_hash)).document).toMatchObject({
      agentRegistry: `eip155:31337:${on.contracts.identity}`,
      agentId: 0,
      clientAddress: `eip155:31337:${testAddress}`,
      createdAt: '2026-01-14T00:00:00.000Z',
      value: 90,
      valueDecimals: 0,
      tag1: 'wardline.v1',
      tag2: 'posture.weekly',
    })
    await using on2 = await openChainService()
    await using validation = await openFor(on2, 'validation')
    await validation.services.chain!.submit([record()])
    await settle(on2, validation)
    const [answered] = await validation.rows<{ tx_hash: string; result: string }>(
      made.replace('tx_hash', 'tx_hash, result'),
    )
    expect((await writtenBy(on2, answered!.tx_hash)).document).toMatchObject({
      type: 'wardline.attestation-report.v1',
      agent_registry: `eip155:31337:${on2.contracts.identity}`,
      agent_id: '0',
      request_hash: answered!.result,
      response: 90,
      self_attested: true,
    })
  })

  it.each(['feedback', 'validation'] as const)('that an earlier version queued for %s stay valid', async (sink) => {
    await using on = await openChainService()
    await using service = await openFor(on, sink)
    const item = record()
    await service.services.chain!.submit([item])
    const hash = item.hash as `0x${string}`
    const [ask] = await service.rows<{ subject: string }>(`select subject from chain_transactions where kind = 'ask'`)
    const data =
      sink === 'feedback'
        ? encodeFunctionData({
            abi,
            functionName: 'giveFeedback',
            args: [0n, 90n, 0, item.namespace, item.tag, '', '', hash],
          })
        : encodeFunctionData({
            abi,
            functionName: 'validationResponse',
            args: [ask!.subject as `0x${string}`, 90, '', hash, item.tag],
          })
    await service.execute(`update chain_transactions set data = '${data}' where kind = 'attest'`)
    await settle(on, service)
    const [made] = await service.rows<{ state: string; result: string; tx_hash: string }>(
      `select state, result, tx_hash from chain_transactions where kind = 'attest'`,
    )
    expect(made).toMatchObject({ state: 'confirmed' })
    const onChain = { sink, uid: made!.result, tx_hash: made!.tx_hash }
    expect(await seenBy(on, onChain, hash)).toEqual({ isRevoked: false, isBare: true })
    expect(await seenBy(on, onChain, record(2).hash)).toBe('missing')
    await (await service.services.chain!.planRevocation(made!.result))!.send!()
    await settle(on, service)
    expect(await seenBy(on, onChain, hash)).toEqual({ isRevoked: true, isBare: true })
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

describe.skipIf(missing !== undefined)('feedback written by another program', () => {
  const { hash, at, ...fields } = record()
  const attestation = { hash, at: new Date(at).toISOString(), ...fields }
  const file = (on: ChainService) => ({
    agentRegistry: `eip155:31337:${on.contracts.identity}`,
    agentId: 0,
    clientAddress: `eip155:31337:${testAddress}`,
    createdAt: attestation.at,
    ...{ value: 90, valueDecimals: 0, tag1: 'wardline.v1', tag2: 'posture.weekly' },
    attestation,
  })
  type File = ReturnType<typeof file>
  const embedded = (text: string) => ({ uri: dataUriOf(text), hash: hashOf(text) })
  const changed = (change: (document: File) => object) => (document: File) => embedded(JSON.stringify(change(document)))

  it.each<[string, (document: File) => { uri: string; hash: string }, object | 'missing']>([
    ['nothing', changed((document) => document), valid],
    ['an earlier form', () => ({ uri: '', hash }), { isRevoked: false, isBare: true }],
    ['another hash', (document) => ({ ...changed((same) => same)(document), hash: hashOf('other') }), 'missing'],
    ['the hash of the attestation', (document) => ({ ...changed((same) => same)(document), hash }), 'missing'],
    ['another value', changed((document) => ({ ...document, value: 91 })), 'missing'],
    ['another agent', changed((document) => ({ ...document, agentId: 1 })), 'missing'],
    [
      'another client',
      changed((document) => ({ ...document, clientAddress: `eip155:31337:${otherAddress}` })),
      'missing',
    ],
    ['another score', changed((document) => ({ ...document, attestation: { ...attestation, score: 91 } })), 'missing'],
    [
      'another attestation',
      changed((document) => ({ ...document, attestation: { ...attestation, ...record(2), at: attestation.at } })),
      'missing',
    ],
    ['no attestation', changed(({ attestation: _, ...document }) => document), 'missing'],
    [
      'half a character',
      changed((document) => ({ ...document, attestation: { ...attestation, title: '\ud800' } })),
      'missing',
    ],
    [
      'an https URI',
      (document) => ({ uri: 'https://a.example/file.json', hash: hashOf(JSON.stringify(document)) }),
      'missing',
    ],
    ['no JSON', () => embedded('['.repeat(5_000)), 'missing'],
  ])('with %s is judged by its document', async (_what, write, expected) => {
    await using on = await openChainService()
    await using _service = await openFor(on, 'feedback')
    const { uri, hash: feedbackHash } = write(file(on))
    const data = encodeFunctionData({
      abi,
      functionName: 'giveFeedback',
      args: [0n, 90n, 0, 'wardline.v1', 'posture.weekly', '', uri, feedbackHash as `0x${string}`],
    })
    const call = { from: testAddress, to: on.contracts.reputation, data, gas: '0x4c4b40' }
    const tx_hash = await on.chain.ask<string>('eth_sendTransaction', call)
    await mine(on.chain, 1)
    const onChain = { sink: 'feedback', uid: `0x${'1'.padStart(64, '0')}`, tx_hash }
    expect(await seenBy(on, onChain, hash)).toEqual(expected)
  })
})
