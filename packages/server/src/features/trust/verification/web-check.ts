import { cutText, utf16Size } from '@wardline/text'
import { dayMs } from '../../../clock.ts'
import { EgressError, type FetchedAnswer, type ReadingEgress } from '../../../egress/egress.ts'
import { followRedirects, httpsUrl } from './follow-redirects.ts'
import { notScored, type RiskFinding, type Score, scoreOf, worstOf } from './score.ts'

/** An agent has a page, an A2A card and an MCP server. Each takes a connection for up to four answers of 15 seconds. */
const maxEndpoints = 10
/** Certificates are usually renewed with 30 of 90 days left, and shorter-lived ones with a third left. */
const soonMs = 14 * dayMs
const soonShare = 1 / 4
/** Of a URL in a detail. */
const shownLength = 100

const unreachable = 'The endpoint does not answer over HTTPS.'

export interface WebEndpoint {
  url: string
  /** 'page': shown by browsers; 'api': an A2A card or an MCP server. */
  kind: 'page' | 'api'
}

interface Means {
  egress: ReadingEgress
  /** Epoch milliseconds. */
  now: number
  signal?: AbortSignal | undefined
}

const finding = (risk: number, note: string, detail = note): RiskFinding => ({ risk, note, detail })

/** True without the CSP directive, or the older header, that keeps other sites from framing the page. */
const allowsFraming = ({ 'content-security-policy': policy = '', 'x-frame-options': old }: FetchedAnswer['headers']) =>
  !/frame-ancestors|sandbox/i.test(policy) && old === undefined

/** The policy of what a page may load, and who may frame it, mean nothing for an API. */
function headerFindings(headers: FetchedAnswer['headers'], kind: WebEndpoint['kind']): RiskFinding[] {
  const missing = (risk: number, header: string) =>
    finding(risk, 'Security headers are missing.', `The answer has no ${header}: set it at the edge.`)
  const isPage = kind === 'page'
  const age = /max-age="?(\d+)/i.exec(headers['strict-transport-security'] ?? '')?.[1]
  return [
    ...(Number(age ?? 0) > 0 ? [] : [missing(15, 'strict-transport-security')]),
    ...(isPage && headers['content-security-policy'] === undefined ? [missing(15, 'content-security-policy')] : []),
    ...(isPage && allowsFraming(headers) ? [missing(10, 'frame-ancestors or x-frame-options')] : []),
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

/** How an API refuses a GET without a token or a session (https://modelcontextprotocol.io, "Streamable HTTP"). */
const refusals = [400, 401, 403, 405, 406]

function statusFindings(status: number, kind: WebEndpoint['kind']): RiskFinding[] {
  if ((status >= 200 && status <= 299) || (kind === 'api' && refusals.includes(status))) return []
  return [finding(60, 'The endpoint answers with an error.', `The endpoint answered with status ${status}.`)]
}

/**
 * Checks one endpoint for HTTPS, a valid certificate that does not expire soon, its status and security headers. Where
 * they cannot be seen, because nothing answers over HTTPS, the risk is 100 without them.
 */
async function checkEndpoint({ url, kind }: WebEndpoint, { egress, now, signal }: Means): Promise<Score> {
  const place = httpsUrl(url)
  if (!place) {
    const detail = `${cutText(url, shownLength, utf16Size)} is not an https URL: correct it, or put TLS before the service.`
    return notScored('InvalidURL', 'The endpoint is not an HTTPS address.', detail)
  }
  const accept = kind === 'page' ? 'text/html' : 'application/json, text/event-stream'
  try {
    const { answers, fault } = await followRedirects({ url: place, accept, egress, signal })
    if (fault) {
      const note =
        fault.kind === 'unencrypted'
          ? 'The endpoint redirects to an unencrypted address.'
          : 'The endpoint redirects too often.'
      return scoreOf([finding(100, note, fault.detail)], '')
    }
    // Redirects may show the same certificate again.
    const expiring = answers.map(({ certificate }) => certificateFindings(certificate, now))
    const { status, headers } = answers.at(-1)!
    return scoreOf(
      [
        ...(expiring.find((found) => found.length > 0) ?? []),
        ...statusFindings(status, kind),
        ...headerFindings(headers, kind),
      ],
      'All endpoints reachable.',
    )
  } catch (fault) {
    if (!(fault instanceof EgressError)) throw fault
    if (fault.kind === 'forbidden')
      return notScored('VerificationFailed', 'The endpoint could not be checked.', fault.message)
    const note = fault.kind === 'certificate' ? 'The certificate is not valid.' : unreachable
    return scoreOf([finding(100, note, fault.message)], '')
  }
}

/** Web application verification (WAV): the score of the worst endpoint, if all could be checked. */
export async function checkWeb(endpoints: readonly WebEndpoint[], means: Means): Promise<Score> {
  if (endpoints.length === 0)
    return notScored(
      'InvalidURL',
      'The registration file names no endpoint to check.',
      'The registration file has no service named web, A2A or MCP: add the address of the agent.',
    )
  if (endpoints.length > maxEndpoints)
    return notScored(
      'VerificationFailed',
      'The registration file names too many endpoints to check.',
      `The registration file names ${endpoints.length} endpoints, of which at most ${maxEndpoints} can be checked.`,
    )
  const scores = await Promise.all(
    endpoints.map(async (endpoint) => {
      const score = await checkEndpoint(endpoint, means)
      const details = score.details.map((detail) => `${cutText(endpoint.url, shownLength, utf16Size)}: ${detail}`)
      return endpoints.length === 1 ? score : { ...score, details }
    }),
  )
  return worstOf(scores as [Score, ...Score[]])
}
