import type { Hex, TransactionSerializableEIP1559 } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { parseTransaction, serializeTransaction } from 'viem/utils'
import { describe, expect, it } from 'vitest'
import { missingAnvil } from '../../../../../test-servers/anvil.ts'
import { createEgress } from '../../egress/open-egress.ts'
import {
  type ChainService,
  mine,
  openChainService,
  otherAddress,
  record,
  testAddress,
  testKey,
  transactions,
  turn,
  withSchema,
} from '../../testing/chain.ts'
import { openTestService } from '../../testing/service.ts'
import type { Signer } from '../../wallet.ts'
import { attestWeekly } from '../trust/trust.ts'
import { createExternalSigner } from './external-signer.ts'
import { domainOf, signAttestation } from './off-chain.ts'

const missing = missingAnvil()
if (missing !== undefined) console.warn(`${missing}: external signers are not tested`)

const key = privateKeyToAccount(testKey)
const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const asked = {
  type: 'eip1559',
  chainId: 31_337,
  nonce: 0,
  gas: 50_000n,
  maxFeePerGas: 2_000_000_000n,
  maxPriorityFeePerGas: 1_000_000_000n,
  to: otherAddress,
  data: '0x1234',
  value: 0n,
} as const satisfies TransactionSerializableEIP1559

/** The node of the chain signs for its accounts; its answers can be falsified. */
function open(on: ChainService, deadlineMs?: number): Signer & Disposable {
  const egress = createEgress({ guarded: false, allow: [], ...(deadlineMs ? { deadlineMs } : {}) })
  const url = `${on.env.TRUST_RPC_URL}/signer-token`
  const signer = createExternalSigner({ url, address: testAddress.toLowerCase(), egress, end: undefined })
  return { ...signer, [Symbol.dispose]: () => egress.close() }
}

/** Answers the method with this result in place of the true one. */
function answering(on: ChainService, method: string, result: (params: unknown[]) => unknown): void {
  on.lies.answer = async (called, params, truth) => {
    if (called !== method) return 'pass'
    const { id } = JSON.parse(await truth()) as { id: number }
    return { body: JSON.stringify({ jsonrpc: '2.0', id, result: await result(params) }) }
  }
}

const messageOf = (signing: Promise<unknown>): Promise<string> =>
  signing.then(
    () => 'signed',
    (fault) => `${fault.name} ${fault.kind}: ${fault.message}`,
  )

/** The same transaction with the other of its two valid signatures. */
function withHighS(raw: Hex): Hex {
  const { r, s, yParity } = parseTransaction(raw as `0x02${string}`)
  return serializeTransaction(asked, {
    r: r!,
    s: `0x${(order - BigInt(s!)).toString(16)}`,
    yParity: 1 - yParity!,
  })
}

describe.skipIf(missing !== undefined)('an external signer', () => {
  it('signs what it was asked to sign, as the key would', async () => {
    await using on = await openChainService()
    using signer = open(on)
    const signed = await key.signTransaction(asked)
    expect(await signer.signTransaction(asked)).toBe(signed)
    // Transactions are stored under the address: another spelling would be another wallet, which sends them again.
    expect(signer.address).toBe(testAddress)
    const domain = domainOf({ trustChainId: 84_532, trustEas: undefined })
    const attestation = { ...record(), at: 1_795_176_000_000 }
    expect(await signAttestation(attestation, signer, domain)).toEqual(await signAttestation(attestation, key, domain))
    expect(on.asked.slice(-2)).toEqual(['eth_signTransaction', 'eth_signTypedData_v4'])
    // geth, and what stands before Clef.
    answering(on, 'eth_signTransaction', () => ({ raw: signed, tx: {} }))
    expect(await signer.signTransaction(asked)).toBe(signed)
  })

  // Bytes that are signed can be sent by anyone who sees them, so none may reach the database or the node.
  it('cannot have another transaction sent', async () => {
    await using on = await openChainService()
    using signer = open(on)
    const other = privateKeyToAccount(`0x${'1'.repeat(64)}`)
    const changedTo = (change: object) => () => key.signTransaction({ ...asked, ...change })
    const { chainId, nonce, gas, to, data, value } = asked
    const legacy = { type: 'legacy', chainId, nonce, gas, to, data, value, gasPrice: 2_000_000_000n } as const
    const cases: [RegExp, () => unknown][] = [
      [/not as 0xf39F/, () => other.signTransaction(asked)],
      [/it changed chainId\.$/, changedTo({ chainId: 1 })],
      [/it changed nonce\.$/, changedTo({ nonce: 1 })],
      [/it changed gas\.$/, changedTo({ gas: 50_001n })],
      [/it changed maxFeePerGas\.$/, changedTo({ maxFeePerGas: 3_000_000_000n })],
      [/it changed maxPriorityFeePerGas\.$/, changedTo({ maxPriorityFeePerGas: 1n })],
      [/it changed to\.$/, changedTo({ to: testAddress })],
      [/it changed data\.$/, changedTo({ data: '0x' })],
      [/it changed value\.$/, changedTo({ value: 1n })],
      [/it changed nonce, value\.$/, changedTo({ nonce: 7, value: 1n })],
      [/added something/, changedTo({ accessList: [{ address: otherAddress, storageKeys: [] }] })],
      [/of type legacy/, () => key.signTransaction(legacy)],
      [/s is not the lower one/, async () => withHighS(await key.signTransaction(asked))],
      [/without a signature/, () => serializeTransaction(asked)],
      [/are no transaction/, () => '0x'],
      [/are no transaction/, () => '0x02ff'],
      [/are no transaction/, () => `0x02${'c1'.repeat(20_000)}`],
      [/does not define/, () => 'soon'],
      [/does not define/, () => ({ raw: 7 })],
      [/does not define/, () => null],
      [/no JSON of at most 64 KiB/, () => `0x${'0'.repeat(200_000)}`],
    ]
    for (const [sentence, lie] of cases) {
      answering(on, 'eth_signTransaction', lie)
      const message = await messageOf(signer.signTransaction(asked))
      expect(message).toMatch(sentence)
      expect(message).toMatch(/^RpcError (large|wrong|unavailable): The signer /)
      expect(message).not.toContain('signer-token')
    }
  })

  // Signers have rules for contracts and methods. The next ones would be given up after seven days, unsent.
  it('that refuses a transaction keeps no other from being sent', async () => {
    await using on = await openChainService()
    const byKey = await on.open()
    await withSchema(on, byKey)
    await using service = await on.open({ TRUST_WALLET_KEY_FILE: '', TRUST_SIGNER_URL: on.env.TRUST_RPC_URL! }, byKey)
    const registration = await service.services.chain!.planRegistration()
    await registration.send!()
    service.clock.advance(1_000)
    await service.services.chain!.submit([record()])
    const { data } = (
      await service.rows<{ data: string }>(`select data from chain_transactions where kind = 'register'`)
    )[0]!
    on.lies.answer = async (method, [asked], truth) => {
      if (method !== 'eth_signTransaction' || (asked as { data: string }).data !== data) return 'pass'
      const { id } = JSON.parse(await truth()) as { id: number }
      return { body: JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32000, message: 'not allowed' } }) }
    }
    await turn(service)
    await mine(on.chain, 3)
    await turn(service)
    expect((await transactions(service)).slice(1)).toMatchObject([
      { kind: 'register', state: 'pending' },
      { kind: 'attest', state: 'confirmed' },
    ])
    expect(await service.rows('select last_error from chain_senders')).toEqual([
      { last_error: 'The signer refused eth_signTransaction: not allowed' },
    ])
  })

  it('cannot pass off the signature of another key or of other data', async () => {
    await using on = await openChainService()
    using signer = open(on)
    const domain = domainOf({ trustChainId: 84_532, trustEas: undefined })
    const sign = () => signAttestation({ ...record(), at: 1_795_176_000_000 }, signer, domain)
    const right = (await sign()).sig.signature
    const text = (s: string, last: string): Hex => `0x${right.r.slice(2)}${s}${last}`
    const s = right.s.slice(2)
    const high = (order - BigInt(right.s)).toString(16).padStart(64, '0')
    const [same, flipped] = right.v === 27 ? ['1b', '1c'] : ['1c', '1b']
    const other = privateKeyToAccount(`0x${'1'.repeat(64)}`)
    const cases: [RegExp, (params: unknown[]) => unknown][] = [
      [/not as 0xf39F/, ([, data]) => other.signTypedData(JSON.parse(data as string))],
      [
        /not as 0xf39F/,
        ([, data]) => key.signTypedData({ ...JSON.parse(data as string), primaryType: 'EIP712Domain' }),
      ],
      [/not as 0xf39F/, () => text(s, flipped!)],
      [/not as 0xf39F/, () => text('0'.repeat(64), same!)],
      [/s is not the lower one/, () => text(high, flipped!)],
      [/does not define/, () => text(s, '02')],
      [/does not define/, () => text(s, '')],
      [/does not define/, () => `${text(s, same!)}00`],
      [/does not define/, () => ({ signature: text(s, same!) })],
      [/no JSON of at most 64 KiB/, () => `0x${'0'.repeat(200_000)}`],
    ]
    for (const [sentence, lie] of cases) {
      answering(on, 'eth_signTypedData_v4', lie)
      expect(await messageOf(sign())).toMatch(sentence)
    }
    answering(on, 'eth_signTypedData_v4', () => text(s, same === '1b' ? '00' : '01'))
    expect((await sign()).sig.signature).toEqual(right)
  })

  it('is asked by the name of Web3Signer where it refuses eth_signTypedData_v4', async () => {
    await using on = await openChainService()
    using signer = open(on)
    const domain = domainOf({ trustChainId: 84_532, trustEas: undefined })
    const attestation = { ...record(), at: 1_795_176_000_000 }
    const sign = () => signAttestation(attestation, signer, domain)
    const called: string[] = []
    const refusal = (message: string) => ({ body: JSON.stringify({ id: 1, error: { code: -32_000, message } }) })
    let signs = true
    on.lies.answer = async (method, [account, data], truth) => {
      called.push(method)
      const { id } = JSON.parse(await truth()) as { id: number }
      if (method === 'eth_signTypedData_v4') return refusal('Failed to connect to downstream node')
      if (!signs) return refusal(`no account at ${on.env.TRUST_RPC_URL}/signer-token`)
      expect(account).toBe(testAddress)
      expect(JSON.parse(data as string).types.EIP712Domain).toHaveLength(4)
      const result = await on.chain.ask('eth_signTypedData_v4', account, data)
      return { body: JSON.stringify({ jsonrpc: '2.0', id, result }) }
    }
    const { sig } = await sign()
    expect(called).toEqual(['eth_signTypedData_v4', 'eth_signTypedData'])
    expect(sig).toEqual((await signAttestation(attestation, key, domain)).sig)
    signs = false
    const message = await messageOf(sign())
    expect(message).toMatch(/^RpcError refused: .*downstream node; The signer refused eth_signTypedData: no account/)
    expect(message).not.toContain('signer-token')
  })

  it('that answers nothing is given up', async () => {
    await using on = await openChainService()
    using signer = open(on, 100)
    on.lies.answer = () => 'silent'
    expect(await messageOf(signer.signTransaction(asked))).toMatch(/^RpcError unavailable: The signer: /)
  })
})

describe.skipIf(missing !== undefined)('a service with an external signer', () => {
  const envOf = ({ env }: ChainService) => {
    const { TRUST_WALLET_KEY_FILE: _, ...rest } = env
    return { ...rest, TRUST_SIGNER_URL: `${env.TRUST_RPC_URL}/signer-token` }
  }

  it('signs attestations, and sends them to the chain', async () => {
    await using on = await openChainService()
    await using service = await openTestService({ env: envOf(on) })
    await withSchema(on, service)
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'a', name: 'a' } })
    await attestWeekly(service.deps)
    const [row] = await service.rows<{ hash: string; signed: string }>('select hash, signed from attestations')
    expect(JSON.parse(row!.signed)).toMatchObject({ signer: testAddress, sig: { domain: { chainId: 31_337 } } })
    await service.services.chain!.submit([{ ...record(), hash: row!.hash }])
    await turn(service)
    await mine(on.chain, 3)
    await turn(service)
    expect((await transactions(service)).map(({ kind, state }) => [kind, state])).toEqual([
      ['schema', 'confirmed'],
      ['attest', 'confirmed'],
    ])
  })

  // A signer that is away must not cost a transaction, and a false answer must not become one.
  it('keeps transactions while the signer is away or lies, and reports it after an hour', async () => {
    await using on = await openChainService()
    await using service = await openTestService({ env: envOf(on) })
    await withSchema(on, service)
    await service.services.chain!.submit([record()])
    const sent = on.asked.filter((method) => method === 'eth_sendRawTransaction').length
    answering(on, 'eth_signTransaction', () => key.signTransaction({ ...asked, value: 1n }))
    await turn(service)
    on.lies.answer = (method) => (method === 'eth_signTransaction' ? 'lose' : 'pass')
    for (let round = 0; round < 8; round++) await turn(service)
    expect((await transactions(service)).at(-1)).toMatchObject({ kind: 'attest', state: 'pending', nonce: null })
    expect(on.asked.filter((method) => method === 'eth_sendRawTransaction')).toHaveLength(sent)
    expect(await service.rows('select hash from chain_attempts')).toHaveLength(1)
    const events = await service.rows<{ description: string }>(
      `select description from events where event_type = 'chain_unavailable'`,
    )
    expect(events).toEqual([
      { description: expect.stringMatching(/^Transactions have waited for an hour: The signer: /) },
    ])
    expect(JSON.stringify([events, service.logged])).not.toContain('signer-token')

    on.lies.answer = undefined
    await turn(service)
    await mine(on.chain, 3)
    await turn(service)
    expect((await transactions(service)).at(-1)).toMatchObject({ kind: 'attest', state: 'confirmed' })
  })
})
