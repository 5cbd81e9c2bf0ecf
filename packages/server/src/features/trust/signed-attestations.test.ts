import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SignedAttestation, TrustSummary } from '@wardline/contract'
import { describe, expect, it } from 'vitest'
import { testAddress, testKey } from '../../testing/chain.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { offChainFault } from '../chain/off-chain.ts'
import { attestWeekly } from './trust.ts'

const weekMs = 7 * 86_400_000
const pathOf = (uid: string) => `/api/public/trust/attestations/${uid}`

async function attest(service: TestService): Promise<void> {
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'a', name: 'a' } })
  await attestWeekly(service.deps)
}
async function attestations(service: TestService): Promise<TrustSummary['attestations']> {
  service.clock.advance(60_000)
  return (await service.call<TrustSummary>('GET', '/api/public/trust', { key: null })).body.attestations
}
const read = (service: TestService, uid: string) => service.call<SignedAttestation>('GET', pathOf(uid), { key: null })

/** Verifies a published attestation as a stranger does. */
async function faultOf(service: TestService, item: TrustSummary['attestations'][number]) {
  const { uid, attester, contract } = item.off_chain!
  const expected = { uid, signer: attester, chainId: 84_532, contract }
  return offChainFault((await read(service, uid)).body, { ...item, at: Date.parse(item.at) }, expected)
}

describe('weekly attestations', () => {
  it('are signed without any setting, by the same key in every process and after a restart', async () => {
    await using service = await openTestService()
    await attest(service)
    const [item] = await attestations(service)
    const { uid, attester } = item!.off_chain!
    expect(item).not.toHaveProperty('on_chain')
    expect(item!.off_chain).toEqual({
      uid: expect.stringMatching(/^0x[0-9a-f]{64}$/),
      attester: expect.stringMatching(/^0x[0-9a-fA-F]{40}$/),
      chain: 'eip155:84532',
      contract: '0x4200000000000000000000000000000000000021',
      url: pathOf(uid),
    })
    expect(await faultOf(service, item!)).toBeUndefined()

    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    service.clock.advance(weekMs)
    await attest(other)
    const [next] = await attestations(other)
    expect(next!.off_chain).toMatchObject({ attester })
    expect(next!.off_chain!.uid).not.toBe(uid)
    expect(await faultOf(other, next!)).toBeUndefined()

    await using stranger = await openTestService()
    await attest(stranger)
    expect((await attestations(stranger))[0]!.off_chain!.attester).not.toBe(attester)
  })

  it('are served as the file that tools of EAS read, to any page, like the summary', async () => {
    await using service = await openTestService()
    await attest(service)
    const [item] = await attestations(service)
    const { uid, attester } = item!.off_chain!
    const { status, headers, body } = await read(service, uid)
    expect([status, body.signer, body.sig.uid]).toEqual([200, attester, uid])
    expect(Object.keys(body)).toEqual(['sig', 'signer'])
    expect(headers).toMatchObject({
      'cache-control': 'public, max-age=60',
      'access-control-allow-origin': '*',
      'content-type': 'application/json; charset=utf-8',
    })

    const unknown = await read(service, `0x${'0'.repeat(64)}`)
    expect([unknown.status, unknown.headers['cache-control']]).toEqual([404, 'no-store'])
    expect((await read(service, 'x')).status).toBe(400)

    await using off = await openTestService({
      dataDir: service.deps.config.dataDir,
      env: { TRUST_PUBLIC_ENABLED: 'false' },
    })
    expect((await read(off, uid)).status).toBe(404)
  })

  it('are signed by the wallet where a key file is configured, without a node', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'wardline-test-wallet-'))
    try {
      const file = join(folder, 'key')
      writeFileSync(file, testKey, { mode: 0o600 })
      const env = { TRUST_WALLET_KEY_FILE: file, TRUST_WALLET_ADDRESS: testAddress }
      await using service = await openTestService({ env })
      await attest(service)
      const [item] = await attestations(service)
      expect(item!.off_chain!.attester).toBe(testAddress)
      expect(await faultOf(service, item!)).toBeUndefined()
      const wrong = { ...env, TRUST_WALLET_ADDRESS: `0x${'1'.repeat(40)}` }
      await expect(openTestService({ env: wrong })).rejects.toThrow(`the key is of ${testAddress}`)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('of earlier versions stay what they are: unsigned', async () => {
    await using service = await openTestService()
    await attest(service)
    const [signed] = await attestations(service)
    await service.deps.database.db.updateTable('attestations').set({ uid: null, signed: null }).execute()
    const [earlier] = await attestations(service)
    expect(earlier).not.toHaveProperty('off_chain')
    expect(earlier!.hash).toBe(signed!.hash)
    await attest(service)
    expect((await attestations(service))[0]).not.toHaveProperty('off_chain')
  })

  it('are not stored when they cannot be signed, and are made again', async () => {
    await using service = await openTestService({
      env: { TRUST_SIGNER_URL: 'http://127.0.0.1:9/secret-path', TRUST_WALLET_ADDRESS: testAddress },
    })
    const failed = await attest(service).then(
      () => 'stored',
      (fault) => String(fault),
    )
    expect(failed).toMatch(/^RpcError: The signer: /)
    expect(failed).not.toContain('secret-path')
    expect(await service.rows('select tag from attestations')).toEqual([])
  })
})
