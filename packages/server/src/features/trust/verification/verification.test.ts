import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import type { TrustSummary } from '@wardline/contract'
import { afterEach, describe, expect, it } from 'vitest'
import { createEgress } from '../../../egress/open-egress.ts'
import { listJobs } from '../../../jobs.ts'
import { createTestAuthority, createTestCertificate, type TestCertificate } from '../../../testing/certificate.ts'
import { startHttpReceiver } from '../../../testing/receiver.ts'
import { openTestService, type TestService } from '../../../testing/service.ts'
import { unifiedScore } from './score.ts'
import { verifySelf } from './verify.ts'
import { isListed } from './wallet-check.ts'
import { checkWeb } from './web-check.ts'

const dayMs = 86_400_000
const wallet = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'
const authority = createTestAuthority()
const good = {
  'strict-transport-security': 'max-age=31536000',
  'content-security-policy': "default-src 'self'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
}

const opened: (() => unknown)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

function trustAuthority(): void {
  const before = getCACertificates('default')
  setDefaultCACertificates([authority.cert])
  opened.push(() => setDefaultCACertificates(before))
}

const valid = (days = 60) => authority.issue(Date.now() - 30 * dayMs, Date.now() + days * dayMs)

/** Starts an HTTPS server with this certificate and returns its URL. */
async function serve(answer: RequestListener, certificate: TestCertificate = valid()): Promise<string> {
  const server = createServer(certificate, answer)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  opened.push(async () => {
    server.closeAllConnections()
    await once(server.close(), 'close')
  })
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}/trust`
}

const fine: RequestListener = (_request, response) => response.writeHead(200, good).end('fine')
const redirectTo =
  (location: string): RequestListener =>
  (_request, response) =>
    response.writeHead(302, { location }).end()

async function check(url: string, { now = Date.now(), allow = ['127.0.0.1/32'], deadlineMs = 5_000 } = {}) {
  const egress = createEgress({ guarded: true, allow, deadlineMs })
  opened.push(() => egress.close())
  return checkWeb({ url, egress, now })
}

describe('the unified score', () => {
  it('is the mean of the scores that apply, and null when none does', () => {
    expect(unifiedScore([10, 25])).toBe(18)
    expect(unifiedScore([null, 40])).toBe(40)
    expect(unifiedScore([0, null])).toBe(0)
    expect(unifiedScore([null, null])).toBeNull()
  })
})

describe('the check of the web application', () => {
  it('finds no risk over HTTPS with a valid certificate and all headers', async () => {
    trustAuthority()
    const url = await serve(fine)
    expect(await check(url)).toEqual({ risk: 0, notes: 'All endpoints reachable.', details: [] })
    const redirected = await serve(redirectTo(url))
    expect(await check(redirected)).toMatchObject({ risk: 0 })
  })

  it('adds the risk of each missing header, with one note for all', async () => {
    trustAuthority()
    const bare = await serve((_request, response) => response.end('bare'))
    const { risk, notes, details } = await check(bare)
    expect([risk, notes, details.length]).toEqual([50, 'Security headers are missing.', 4])
    const unsafe = { ...good, 'strict-transport-security': 'max-age=0' }
    const almost = await serve((_request, response) => response.writeHead(200, unsafe).end())
    expect(await check(almost)).toMatchObject({ risk: 15, details: [expect.stringContaining('strict-transport')] })
  })

  it('scores 100 for an expired, untrusted or not yet valid certificate', async () => {
    trustAuthority()
    const hour = 3_600_000
    const invalid = [
      authority.issue(Date.now() - 30 * dayMs, Date.now() - hour),
      authority.issue(Date.now() + hour, Date.now() + 30 * dayMs),
      createTestCertificate(),
    ]
    for (const certificate of invalid) {
      const found = await check(await serve(fine, certificate))
      expect(found).toMatchObject({ risk: 100, notes: 'The certificate is not valid.' })
    }
  })

  it('adds risk for a certificate that expires soon relative to its lifetime', async () => {
    trustAuthority()
    const [long, short] = [await serve(fine), await serve(fine, authority.issue(Date.now(), Date.now() + 6 * dayMs))]
    expect(await check(long, { now: Date.now() + 45 * dayMs })).toMatchObject({ risk: 0 })
    const late = await check(long, { now: Date.now() + 47 * dayMs })
    expect(late).toMatchObject({ risk: 40, notes: 'The certificate expires soon.' })
    expect(await check(short, { now: Date.now() + 4 * dayMs })).toMatchObject({ risk: 0 })
    expect(await check(short, { now: Date.now() + 5 * dayMs })).toMatchObject({ risk: 40 })
  })

  it('adds risk for a redirect to plain HTTP without following it', async () => {
    trustAuthority()
    await using plain = await startHttpReceiver({ status: 200, body: '' })
    const found = await check(await serve(redirectTo(plain.url)))
    expect(found).toMatchObject({ risk: 60, notes: 'The endpoint redirects to an unencrypted address.' })
    expect(plain.received).toEqual([])
  })

  it('stops at a redirect loop', async () => {
    trustAuthority()
    let count = 0
    const url = await serve((_request, response) => {
      count++
      response.writeHead(301, { location: '/again' }).end()
    })
    expect(await check(url)).toMatchObject({ risk: 60, notes: 'The endpoint redirects too often.' })
    expect(count).toBe(4)
  })

  it('scores 100 for an unreachable, plain HTTP or slow endpoint, and less for an error response', async () => {
    trustAuthority()
    const away = { risk: 100, notes: 'The endpoint does not answer over HTTPS.' }
    expect(await check('http://127.0.0.1:1/trust')).toMatchObject(away)
    expect(await check(await serve(({ socket }) => void socket.destroy()))).toMatchObject(away)
    expect(await check(await serve(() => {}), { deadlineMs: 50 })).toMatchObject(away)
    const failing = await serve((_request, response) => response.writeHead(503, good).end())
    expect(await check(failing)).toMatchObject({ risk: 60, notes: 'The endpoint answers with an error.' })
  })

  it('stops reading an endless response', async () => {
    trustAuthority()
    let written = 0
    const url = await serve((_request, response) => {
      response.writeHead(200, good)
      const more = () => {
        while (!response.destroyed && response.write(Buffer.alloc(16_384))) written += 16_384
      }
      response.on('drain', more)
      more()
    })
    expect(await check(url)).toMatchObject({ risk: 0 })
    // More than 64 KiB, because both sides have buffers.
    expect(written).toBeLessThan(64 * 1024 * 1024)
  })

  // SSRF: an attacker who controls a host name or a redirect could otherwise reach the service's own network.
  it('sends no request to an address that the egress guard forbids, and returns no score', async () => {
    trustAuthority()
    let count = 0
    const url = await serve((_request, response) => {
      count++
      response.writeHead(302, { location: 'https://169.254.169.254/latest/meta-data' }).end()
    })
    const none = { risk: null, notes: 'The endpoint could not be checked.' }
    expect(await check(url, { allow: [] })).toMatchObject(none)
    expect(count).toBe(0)
    expect(await check(url)).toMatchObject({ ...none, details: [expect.stringContaining('169.254.169.254')] })
    expect(count).toBe(1)
  })
})

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
    trustAuthority()
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
        wv: { applicable: false, risk_score: 0, notes: 'No wallet is configured.' },
      },
      self_attested: true,
    })
    expect(chain.erc8126_label).toBe('Self-attested scores after ERC-8126')
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
    const { verification, risk_score } = await trust(service)
    expect(risk_score).toBe(0)
    expect(verification).toMatchObject({
      unified_risk_score: null,
      unified_risk_tier: null,
      unified_risk_tier_label: 'Not assessed',
      scores: { wav: { applicable: false, notes: 'The endpoint could not be checked.' } },
    })
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
    trustAuthority()
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
    trustAuthority()
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
