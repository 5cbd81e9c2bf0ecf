import type { SignedAttestation } from '@wardline/contract'
import { privateKeyToAccount } from 'viem/accounts'
import { describe, expect, it } from 'vitest'
import { testAddress, testKey } from '../../testing/chain.ts'
import { deploymentAccount } from '../../wallet.ts'
import { domainOf, offChainFault, signAttestation } from './off-chain.ts'

const wallet = privateKeyToAccount(testKey)
const baseSepolia = domainOf({ trustChainId: 84_532, trustEas: undefined })
const record = {
  namespace: 'wardline.v1',
  type: 'Posture',
  title: 'Weekly security posture',
  summary: 'Low risk. Security score 90/100',
  tag: 'posture.weekly',
  score: 90,
  at: Date.UTC(2026, 10, 20, 12, 0, 0, 123),
  period: '2026-W47',
  hash: '0xbefe62ecb493b9c802ca7b4c2589d87a453b6eb740af42c76e1ca0e0795d01cb',
}
const expected = (file: SignedAttestation) => ({
  uid: file.sig.uid,
  signer: testAddress,
  chainId: baseSepolia.chainId,
  contract: baseSepolia.contract,
})
const word = (text: string) => Buffer.from(text).toString('hex').padEnd(64, '0')
const number = (value: number) => value.toString(16).padStart(64, '0')

describe('signAttestation', () => {
  // Uid and signature are what `Offchain.signOffchainAttestation` of eas-sdk 2.10.0 makes of the same message and key.
  it('signs what the SDK of EAS signs, in the form of its files', async () => {
    expect(await signAttestation(record, wallet, baseSepolia)).toEqual({
      sig: {
        version: 2,
        uid: '0x2ca51a1a5139699c0aca2386e94b1875dd6bdbc17bfd9c94a30b4f93e5d28d46',
        domain: {
          name: 'EAS Attestation',
          version: '1.2.0',
          chainId: 84_532,
          verifyingContract: '0x4200000000000000000000000000000000000021',
        },
        primaryType: 'Attest',
        types: {
          Attest: [
            { name: 'version', type: 'uint16' },
            { name: 'schema', type: 'bytes32' },
            { name: 'recipient', type: 'address' },
            { name: 'time', type: 'uint64' },
            { name: 'expirationTime', type: 'uint64' },
            { name: 'revocable', type: 'bool' },
            { name: 'refUID', type: 'bytes32' },
            { name: 'data', type: 'bytes' },
            { name: 'salt', type: 'bytes32' },
          ],
        },
        message: {
          version: 2,
          schema: '0x9eb1eb98f7b9d14975e1513abad84fc07d17d9dde018cfcdda29fc06d3a4ca5b',
          recipient: testAddress,
          time: 1_795_176_000,
          expirationTime: 0,
          revocable: true,
          refUID: `0x${'0'.repeat(64)}`,
          data: `${record.hash}${[160, 224, 90, 288, 11].map(number).join('')}${word('wardline.v1')}${number(14)}${word('posture.weekly')}${number(8)}${word('2026-W47')}`,
          salt: record.hash,
        },
        signature: {
          v: 27,
          r: '0x6f44fe1e6e1cde6953f6e6ced5e027f8af686481fd9be21b54e25f6a2107184d',
          s: '0x41608be277d60dd3fec97f761402b6df7fd11feded733d7bcaf1df152f47f476',
        },
      },
      signer: testAddress,
    })
  })

  it('names the EAS of the chain, the configured one, or that of Ethereum', () => {
    const eas = '0xA1207F3BBa224E2c9c3c6D5aF63D0eb1582Ce587'
    expect(domainOf({ trustChainId: 8_453, trustEas: undefined })).toMatchObject({ chainId: 8_453, version: '1.0.1' })
    expect(domainOf({ trustChainId: 56, trustEas: undefined })).toEqual({ chainId: 1, contract: eas, version: '0.26' })
    expect(domainOf({ trustChainId: 56, trustEas: eas })).toEqual({ chainId: 56, contract: eas, version: '1.4.0' })
    expect(domainOf({ trustChainId: 1, trustEas: eas.toLowerCase() })).toMatchObject({ chainId: 1, version: '0.26' })
  })
})

describe('offChainFault', () => {
  it('accepts the signed record, and nothing that was changed in it', async () => {
    const right = await signAttestation(record, wallet, baseSepolia)
    const expecting = expected(right)
    expect(await offChainFault(right, record, expecting)).toBeUndefined()

    const changes: [RegExp, (file: SignedAttestation) => void][] = [
      [
        /^what is signed/,
        ({ sig }) => {
          sig.message.data = sig.message.data.replace('5a', '5b')
        },
      ],
      [
        /^what is signed/,
        ({ sig }) => {
          sig.message.salt = `0x${'1'.repeat(64)}`
        },
      ],
      [
        /^what is signed/,
        ({ sig }) => {
          sig.message.schema = `0x${'1'.repeat(64)}`
        },
      ],
      [
        /^what is signed/,
        ({ sig }) => {
          sig.message.time += 1
        },
      ],
      [
        /^what is signed/,
        ({ sig }) => {
          sig.message.expirationTime = 1
        },
      ],
      [
        /^what is signed/,
        ({ sig }) => {
          sig.message.revocable = false
        },
      ],
      [
        /^what is signed/,
        ({ sig }) => {
          sig.message.recipient = `0x${'1'.repeat(40)}`
        },
      ],
      [/^what is signed/, ({ sig }) => void sig.types.Attest.pop()],
      [
        /^what is signed/,
        ({ sig }) => {
          sig.types.Attest[3]!.type = 'uint128'
        },
      ],
      [
        /^its uid is 0x11/,
        ({ sig }) => {
          sig.uid = `0x${'1'.repeat(64)}`
        },
      ],
      [
        /^its domain is .* on chain 1,/,
        ({ sig }) => {
          sig.domain.chainId = 1
        },
      ],
      [
        /^its domain is 0x11/,
        ({ sig }) => {
          sig.domain.verifyingContract = `0x${'1'.repeat(40)}`
        },
      ],
      [
        /^its signature is not by/,
        ({ sig }) => {
          sig.domain.version = '1.3.0'
        },
      ],
      [
        /^its signature is not by/,
        ({ sig }) => {
          sig.signature.v = 28
        },
      ],
      [
        /^its signature is not by/,
        ({ sig }) => {
          sig.signature.r = `0x${'f'.repeat(64)}`
        },
      ],
      [
        /^its signature is not by/,
        ({ sig }) => {
          sig.signature.s = `0x${'0'.repeat(64)}`
        },
      ],
      [
        /^it is signed by 0x11/,
        (file) => {
          file.signer = `0x${'1'.repeat(40)}`
        },
      ],
    ]
    for (const [fault, change] of changes) {
      const file = structuredClone(right)
      change(file)
      expect(await offChainFault(file, record, expecting), change.toString()).toMatch(fault)
    }
    for (const change of [{ score: 91 }, { tag: 'x' }, { period: 'x' }, { namespace: 'x' }, { at: record.at + 1_000 }])
      expect(await offChainFault(right, { ...record, ...change }, expecting)).toMatch(/^what is signed/)
    // What a service publishes besides its file may be no record at all: leap seconds are dates of RFC 3339.
    for (const change of [{ hash: 'xyz' }, { at: Date.parse('2016-12-31T23:59:60Z') }, { at: Date.UTC(1960) }])
      expect(await offChainFault(right, { ...record, ...change }, expecting)).toMatch(/^what is signed/)
  })

  // Anyone can sign a file in which everything else is right.
  it('refuses the signature of another key under the expected address', async () => {
    const other = privateKeyToAccount(`0x${'1'.repeat(64)}`)
    const forged = await signAttestation(record, { ...other, address: testAddress }, baseSepolia)
    expect(await offChainFault(forged, record, expected(forged))).toMatch(/^its signature is not by/)
  })
})

describe('deploymentAccount', () => {
  it('makes a valid key of every derived number', () => {
    const addressOf = (hex: string) => deploymentAccount({ attestationKey: Buffer.from(hex, 'hex') }).address
    // The address of the key 1.
    expect(addressOf('00'.repeat(48))).toBe('0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf')
    expect(addressOf('ff'.repeat(48))).toMatch(/^0x[0-9a-fA-F]{40}$/)
    // One less than the order, so that the remainder is 0.
    const order = `${'ff'.repeat(15)}febaaedce6af48a03bbfd25e8cd0364140`
    expect(addressOf(`${'00'.repeat(16)}${order}`)).toBe('0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf')
  })
})
