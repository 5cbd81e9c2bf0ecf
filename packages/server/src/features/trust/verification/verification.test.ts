import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TrustSummary } from '@wardline/contract'
import { afterEach, describe, expect, it } from 'vitest'
import { listJobs } from '../../../jobs.ts'
import { safeHeaders, startSite, trustAuthority } from '../../../testing/https-site.ts'
import { openTestService, type TestService } from '../../../testing/service.ts'
import { verifySelf } from './verify.ts'
import { isListed } from './wallet-check.ts'

const dayMs = 86_400_000
const wallet = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'

const opened: (() => unknown)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

/** Starts an HTTPS server whose certificate is trusted, and returns its URL. */
async function serve(answer: RequestListener): Promise<string> {
  const [trusted, site] = [trustAuthority(), await startSite(answer)]
  opened.push(
    () => trusted[Symbol.dispose](),
    () => site[Symbol.asyncDispose](),
  )
  return `${site.url}/trust`
}

const fine: RequestListener = (_request, response) => response.writeHead(200, safeHeaders).end('fine')

describe('the list of bad addresses', () => {
  it('accepts comments and any letter case, and reports the line of an invalid address', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'wardline-test-list-'))
    opened.push(() => rmSync(folder, { recursive: true }))
    const file = join(folder, 'list')
    writeFileSync(file, `# sanctioned\n\n${wallet.toUpperCase().replace('X', 'x')} # here\n`)
    expect(await isListed(file, wallet)).toBe(true)
    expect(await isListed(file, `0x${'1'.repeat(40)}`)).toBe(false)
    writeFileSync(file, `${wallet}\nnonsense\n`)
    await expect(isListed(file, wallet)).rejects.toThrow(
      `TRUST_BAD_ADDRESSES_FILE: line 2 of ${file} is not 0x and 40 hexadecimal digits.`,
    )
    chmodSync(file, 0o600)
    writeFileSync(file, '# nothing yet\n')
    await expect(isListed(file, wallet)).rejects.toThrow(`${file} has no address`)
    await expect(isListed(join(folder, 'none'), wallet)).rejects.toThrow(/none cannot be read \(ENOENT\)\.$/)
  })
})

const trust = async (service: TestService) => {
  service.clock.advance(10_000)
  return (await service.call<TrustSummary>('GET', '/api/public/trust', { key: null })).body
}

describe('the verification in the summary', () => {
  const env = (url: string) => ({
    TRUST_VERIFY: 'true',
    WARDLINE_PUBLIC_URL: url.replace('/trust', ''),
    WARDLINE_ALERT_ALLOW_CIDRS: '127.0.0.1/32',
  })
  const jobOf = (service: TestService) =>
    listJobs(service.deps, service.services).find(({ name }) => name === 'verification')

  it('shows the runtime score before the first verification, then self-attested scores', async () => {
    let asked = 0
    const url = await serve((request, response) => {
      asked++
      fine(request, response)
    })
    await using service = await openTestService({ env: env(url) })
    const before = await trust(service)
    expect(before.verification).toMatchObject({
      unified_risk_score: before.risk_score,
      scores: { wav: { applicable: false, risk_score: 0, notes: 'Not assessed.' } },
    })
    expect(before.verification).not.toHaveProperty('self_attested')
    await jobOf(service)!.run()
    const { verification, chain } = await trust(service)
    expect(verification).toMatchObject({
      unified_risk_score: 0,
      unified_risk_tier: 'low',
      unified_risk_tier_label: 'Low risk',
      scores: {
        wav: { applicable: true, risk_score: 0, notes: 'All endpoints reachable.' },
        wv: {
          applicable: false,
          risk_score: 0,
          notes: 'Not checked: there is no on-chain agent, whose wallet it would be.',
        },
      },
      subject: 'configured_address',
      scored: ['wav'],
      not_checked: ['wv'],
      self_attested: true,
    })
    expect(chain.erc8126_label).toBe('Check of the configured address, not of an on-chain agent')
    await jobOf(service)!.run()
    expect(asked).toBe(1)
    service.clock.advance(7 * dayMs)
    await jobOf(service)!.run()
    expect(asked).toBe(2)
    service.clock.advance(30 * dayMs)
    expect((await trust(service)).verification).not.toHaveProperty('self_attested')
  })

  it('has no score when nothing could be checked, and retries after an hour', async () => {
    await using service = await openTestService({
      env: { TRUST_VERIFY: 'true', WARDLINE_PUBLIC_URL: 'https://127.0.0.1:4747' },
    })
    await jobOf(service)!.run()
    const { verification, chain, risk_score } = await trust(service)
    expect(risk_score).toBe(0)
    expect(verification).toMatchObject({
      unified_risk_score: null,
      unified_risk_tier: null,
      unified_risk_tier_label: 'Not assessed',
      scores: {
        wav: {
          applicable: false,
          risk_score: 0,
          notes: 'The endpoint could not be checked.',
          error: 'VerificationFailed',
          error_code: '0x04',
        },
      },
      scored: [],
    })
    expect(chain.erc8126_label).toBe('ERC-8126 verification without a score')
    const count = async () => (await service.rows('select id from verifications')).length
    await jobOf(service)!.run()
    expect(await count()).toBe(1)
    service.clock.advance(3_600_000)
    await jobOf(service)!.run()
    expect(await count()).toBe(2)
    // Old verifications are deleted.
    service.clock.advance(31 * dayMs)
    await jobOf(service)!.run()
    expect(await count()).toBe(1)
  })

  it('is hidden after the configured address changes', async () => {
    const url = await serve(fine)
    await using service = await openTestService({ env: env(url) })
    await verifySelf(service.deps)
    await using moved = await openTestService({
      env: { ...env(url), WARDLINE_PUBLIC_URL: 'https://other.example.com' },
      dataDir: service.deps.config.dataDir,
      clock: service.clock,
    })
    expect((await trust(moved)).verification).not.toHaveProperty('self_attested')
  })

  it('is off by default, and is aborted on shutdown', async () => {
    await using off = await openTestService({ env: { WARDLINE_PUBLIC_URL: 'https://wardline.example.com' } })
    expect(jobOf(off)).toBeUndefined()
    const asked = Promise.withResolvers<void>()
    const url = await serve(() => asked.resolve())
    await using service = await openTestService({ env: env(url) })
    const stopping = new AbortController()
    const run = jobOf(service)!.run(stopping.signal)
    await asked.promise
    stopping.abort()
    await run
    expect(await service.rows('select id from verifications')).toEqual([])
  })
})
