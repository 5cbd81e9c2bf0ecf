import { dayMs } from '../../../clock.ts'
import { EgressError, type FetchedAnswer, type ReadingEgress } from '../../../egress/egress.ts'
import { version } from '../../../version.ts'
import { notScored, type RiskFinding, type Score, scoreOf } from './score.ts'

/** Enough for a redirect to another host name and then to a page; more is probably a loop. */
const maxRedirects = 3
/** Certificates are usually renewed with 30 of 90 days left, and shorter-lived ones with a third left. */
const soonMs = 14 * dayMs
const soonShare = 1 / 4

const unreachable = 'The endpoint does not answer over HTTPS.'

interface Asked {
  /** The service endpoint named in the registration file. */
  url: string
  egress: ReadingEgress
  /** Epoch milliseconds. */
  now: number
  signal?: AbortSignal | undefined
}

const finding = (risk: number, note: string, detail = note): RiskFinding => ({ risk, note, detail })

/** True without the CSP directive, or the older header, that keeps other sites from framing the page. */
const allowsFraming = ({ 'content-security-policy': policy = '', 'x-frame-options': old }: FetchedAnswer['headers']) =>
  !/frame-ancestors|sandbox/i.test(policy) && old === undefined

function headerFindings(headers: FetchedAnswer['headers']): RiskFinding[] {
  const missing = (risk: number, header: string) =>
    finding(risk, 'Security headers are missing.', `The answer has no ${header}: set it at the edge.`)
  const age = /max-age="?(\d+)/i.exec(headers['strict-transport-security'] ?? '')?.[1]
  return [
    ...(Number(age ?? 0) > 0 ? [] : [missing(15, 'strict-transport-security')]),
    ...(headers['content-security-policy'] === undefined ? [missing(15, 'content-security-policy')] : []),
    ...(allowsFraming(headers) ? [missing(10, 'frame-ancestors or x-frame-options')] : []),
    ...(headers['x-content-type-options']?.toLowerCase() === 'nosniff' ? [] : [missing(10, 'x-content-type-options')]),
  ]
}

function certificateFindings(certificate: FetchedAnswer['certificate'], now: number): RiskFinding[] {
  if (!certificate) return []
  const { from, until } = certificate
  if (until - now >= Math.min(soonMs, (until - from) * soonShare)) return []
  const note = 'The certificate expires soon.'
  return [finding(40, note, `The certificate expires on ${new Date(until).toISOString().slice(0, 10)}: renew it.`)]
}

const isRedirect = ({ status, headers }: FetchedAnswer) =>
  [301, 302, 303, 307, 308].includes(status) && headers.location !== undefined

function answerFindings(answer: FetchedAnswer): RiskFinding[] {
  if (isRedirect(answer))
    return [
      finding(60, 'The endpoint redirects too often.', `More than ${maxRedirects} redirects came one after another.`),
    ]
  if (answer.status < 200 || answer.status > 299)
    return [finding(60, 'The endpoint answers with an error.', `The endpoint answered with status ${answer.status}.`)]
  return headerFindings(answer.headers)
}

/**
 * Web application verification (WAV): checks for HTTPS, a valid certificate that does not expire soon, security
 * headers, and no redirect to plain HTTP. A redirect can lead anywhere, so the egress guard checks each one.
 */
export async function checkWeb({ url, egress, now, signal }: Asked): Promise<Score> {
  if (!url.startsWith('https://'))
    return scoreOf([finding(100, unreachable, `${new URL(url).origin} is not https: put TLS before the service.`)], '')
  const headers = { accept: 'text/html', 'user-agent': `wardline/${version}` }
  const expiring: RiskFinding[] = []
  try {
    let place = new URL(url)
    let answer = await egress.get({ url: place.href, headers }, signal)
    for (let count = 0; ; count++) {
      // Redirects may show the same certificate again.
      if (expiring.length === 0) expiring.push(...certificateFindings(answer.certificate, now))
      if (!isRedirect(answer) || count === maxRedirects) break
      const next = URL.parse(answer.headers.location!, place.href)
      if (next?.protocol !== 'https:') {
        const note = 'The endpoint redirects to an unencrypted address.'
        return scoreOf(
          [...expiring, finding(60, note, `A redirect leads away from https: ${next?.protocol ?? 'nowhere'}`)],
          '',
        )
      }
      place = next
      answer = await egress.get({ url: place.href, headers }, signal)
    }
    return scoreOf([...expiring, ...answerFindings(answer)], 'All endpoints reachable.')
  } catch (fault) {
    if (!(fault instanceof EgressError)) throw fault
    if (fault.kind === 'forbidden') return notScored('The endpoint could not be checked.', fault.message)
    const note = fault.kind === 'certificate' ? 'The certificate is not valid.' : unreachable
    return scoreOf([finding(100, note, fault.message)], '')
  }
}
