import type { RequestListener } from 'node:http'
import { afterEach, describe, expect, it } from 'vitest'
import { createTestCertificate, type TestCertificate } from '../../../../../../test-servers/certificate.ts'
import { createEgress } from '../../../egress/open-egress.ts'
import { safeHeaders, startSite, testAuthority, trustAuthority, validCertificate } from '../../../testing/https-site.ts'
import { startHttpReceiver } from '../../../testing/receiver.ts'
import { unifiedScore } from './score.ts'
import { checkWeb, type WebEndpoint } from './web-check.ts'

const dayMs = 86_400_000
const opened: (() => unknown)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

/** Starts an HTTPS server whose certificate is trusted, and returns its URL. */
async function serve(answer: RequestListener, certificate: TestCertificate = validCertificate()): Promise<string> {
  const [trusted, site] = [trustAuthority(), await startSite(answer, certificate)]
  opened.push(
    () => trusted[Symbol.dispose](),
    () => site[Symbol.asyncDispose](),
  )
  return `${site.url}/trust`
}

const fine: RequestListener = (_request, response) => response.writeHead(200, safeHeaders).end('fine')
const answering =
  (status: number, headers: object = safeHeaders): RequestListener =>
  (_request, response) =>
    response.writeHead(status, { ...headers }).end()
const redirectTo =
  (location: string): RequestListener =>
  (_request, response) =>
    response.writeHead(302, { location }).end()

async function checkAll(
  endpoints: WebEndpoint[],
  { now = Date.now(), allow = ['127.0.0.1/32'], deadlineMs = 5_000 } = {},
) {
  const egress = createEgress({ guarded: true, allow, deadlineMs })
  opened.push(() => egress.close())
  return checkWeb(endpoints, { egress, now })
}
const check = (url: string, options?: Parameters<typeof checkAll>[1]) => checkAll([{ url, kind: 'page' }], options)

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
    const url = await serve(fine)
    expect(await check(url)).toEqual({ risk: 0, notes: 'All endpoints reachable.', details: [] })
    const redirected = await serve(redirectTo(url))
    expect(await check(redirected)).toMatchObject({ risk: 0 })
  })

  it('adds the risk of each missing header, with one note for all', async () => {
    const bare = await serve((_request, response) => response.end('bare'))
    const { risk, notes, details } = await check(bare)
    expect([risk, notes, details.length]).toEqual([50, 'Security headers are missing.', 4])
    const unsafe = { ...safeHeaders, 'strict-transport-security': 'max-age=0' }
    const almost = await serve((_request, response) => response.writeHead(200, unsafe).end())
    expect(await check(almost)).toMatchObject({ risk: 15, details: [expect.stringContaining('strict-transport')] })
  })

  it('scores 100 for an expired, untrusted or not yet valid certificate', async () => {
    const hour = 3_600_000
    const invalid = [
      testAuthority.issue(Date.now() - 30 * dayMs, Date.now() - hour),
      testAuthority.issue(Date.now() + hour, Date.now() + 30 * dayMs),
      createTestCertificate(),
    ]
    for (const certificate of invalid) {
      const found = await check(await serve(fine, certificate))
      expect(found).toMatchObject({ risk: 100, notes: 'The certificate is not valid.' })
    }
  })

  it('adds risk for a certificate that expires soon relative to its lifetime', async () => {
    const [long, short] = [
      await serve(fine),
      await serve(fine, testAuthority.issue(Date.now(), Date.now() + 6 * dayMs)),
    ]
    expect(await check(long, { now: Date.now() + 45 * dayMs })).toMatchObject({ risk: 0 })
    const late = await check(long, { now: Date.now() + 47 * dayMs })
    expect(late).toMatchObject({ risk: 40, notes: 'The certificate expires soon.' })
    expect(await check(short, { now: Date.now() + 4 * dayMs })).toMatchObject({ risk: 0 })
    expect(await check(short, { now: Date.now() + 5 * dayMs })).toMatchObject({ risk: 40 })
  })

  it('adds risk for a redirect to plain HTTP without following it', async () => {
    await using plain = await startHttpReceiver({ status: 200, body: '' })
    const found = await check(await serve(redirectTo(plain.url)))
    expect(found).toMatchObject({ risk: 100, notes: 'The endpoint redirects to an unencrypted address.' })
    expect(plain.received).toEqual([])
  })

  it('stops at a redirect loop', async () => {
    let count = 0
    const url = await serve((_request, response) => {
      count++
      response.writeHead(301, { location: '/again' }).end()
    })
    expect(await check(url)).toMatchObject({ risk: 100, notes: 'The endpoint redirects too often.' })
    expect(count).toBe(4)
  })

  it('scores 100 for an unreachable or slow endpoint, and adds the missing headers to an error response', async () => {
    const away = { risk: 100, notes: 'The endpoint does not answer over HTTPS.' }
    expect(await check(await serve(({ socket }) => void socket.destroy()))).toMatchObject(away)
    expect(await check(await serve(() => {}), { deadlineMs: 50 })).toMatchObject(away)
    const error = { notes: 'The endpoint answers with an error.' }
    expect(await check(await serve(answering(503)))).toMatchObject({ ...error, risk: 60 })
    expect(await check(await serve(answering(503, {})))).toMatchObject({ ...error, risk: 100 })
    expect(await check(await serve(answering(405)))).toMatchObject({ ...error, risk: 60 })
  })

  it('stops reading an endless response', async () => {
    let written = 0
    const url = await serve((_request, response) => {
      response.writeHead(200, safeHeaders)
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
    let count = 0
    const url = await serve((_request, response) => {
      count++
      response.writeHead(302, { location: 'https://169.254.169.254/latest/meta-data' }).end()
    })
    const none = { risk: null, notes: 'The endpoint could not be checked.', error: 'VerificationFailed' }
    expect(await check(url, { allow: [] })).toMatchObject(none)
    expect(count).toBe(0)
    expect(await check(url)).toMatchObject({ ...none, details: [expect.stringContaining('169.254.169.254')] })
    expect(count).toBe(1)
  })

  it.each(['http://127.0.0.1:1/', 'ftp://a.example/', 'nonsense', '', 'https://', 'https://user:x@a.example/'])(
    'sends nothing to %j, which is no HTTPS address, and returns no score',
    async (url) => {
      expect(await check(url)).toMatchObject({ risk: null, error: 'InvalidURL' })
    },
  )

  it('cuts a long address in its detail, and refuses one with control characters', async () => {
    const { details, error } = await check(`https://a.example/${'x'.repeat(60_000)}`)
    expect(details[0]!.length).toBeLessThan(250)
    expect(error).toBe('InvalidURL')
    expect(await check('https://a.example/\u001b[31m')).toMatchObject({ risk: null, error: 'InvalidURL' })
  })

  it('asks of an API neither the headers of pages nor an answer without a token', async () => {
    const headers = { 'strict-transport-security': 'max-age=1', 'x-content-type-options': 'nosniff' }
    const api = async (status: number) => checkAll([{ url: await serve(answering(status, headers)), kind: 'api' }])
    for (const status of [200, 401, 405]) expect(await api(status)).toMatchObject({ risk: 0 })
    for (const status of [404, 500]) expect(await api(status)).toMatchObject({ risk: 60 })
    const bare = await serve((_request, response) => response.end())
    expect(await checkAll([{ url: bare, kind: 'api' }])).toMatchObject({ risk: 25 })
  })

  it('scores several endpoints by the worst, and says what was found at which', async () => {
    const [one, other] = [await serve(fine), await serve(answering(500))]
    const endpoints = [one, other].map((url) => ({ url, kind: 'page' as const }))
    expect(await checkAll(endpoints)).toEqual({
      risk: 60,
      notes: 'The endpoint answers with an error.',
      details: [`${other}: The endpoint answered with status 500.`],
    })
  })

  it('returns no score if one of several endpoints cannot be checked, however good or bad the others are', async () => {
    const [good, bad] = [await serve(fine), await serve(redirectTo('http://a.example/'))]
    const forbidden = 'https://169.254.169.254/'
    for (const url of [good, bad])
      for (const urls of [
        [url, forbidden],
        [forbidden, url],
      ]) {
        const found = await checkAll(urls.map((url) => ({ url, kind: 'page' as const })))
        expect(found).toMatchObject({ risk: null, error: 'VerificationFailed' })
      }
  })

  it('returns no score for no endpoint, and asks none of too many', async () => {
    expect(await checkAll([])).toMatchObject({ risk: null, error: 'InvalidURL' })
    let count = 0
    const url = await serve((request, response) => {
      count++
      fine(request, response)
    })
    const endpoints = Array.from({ length: 11 }, (_, place) => ({ url: `${url}/${place}`, kind: 'api' as const }))
    expect(await checkAll(endpoints)).toMatchObject({
      risk: null,
      error: 'VerificationFailed',
      details: ['The registration file names 11 endpoints, of which at most 10 can be checked.'],
    })
    expect(count).toBe(0)
    expect(await checkAll(endpoints.slice(1))).toMatchObject({ risk: 0 })
    expect(count).toBe(10)
  })
})
