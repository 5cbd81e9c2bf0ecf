import type { FetchedAnswer, ReadingEgress } from '../../../egress/egress.ts'
import { version } from '../../../version.ts'

/** Enough for a redirect to another host name and then to a page; more is probably a loop. */
const maxRedirects = 3
/** Servers accept longer ones, but no address of a service needs them. */
export const maxUrlLength = 2_048

/** Returns the URL if it is one of HTTPS without a login, in the characters of a URI (RFC 3986). */
export function httpsUrl(text: string): URL | undefined {
  if (text.length > maxUrlLength || !/^[\x21-\x7e]+$/.test(text)) return undefined
  const url = URL.parse(text)
  return url?.protocol === 'https:' && url.username === '' && url.password === '' ? url : undefined
}

interface Asked {
  url: URL
  /** Media types for the header. */
  accept: string
  egress: ReadingEgress
  signal?: AbortSignal | undefined
}

interface Followed {
  /** The answer of each place, in order. */
  answers: [FetchedAnswer, ...FetchedAnswer[]]
  /** Why the last answer, a redirect, was not followed; undefined when it is none. */
  fault: { kind: 'too often' | 'unencrypted'; detail: string } | undefined
}

/**
 * Fetches a URL over HTTPS alone. A redirect can lead anywhere, so the egress guard checks each place. Rejects with
 * EgressError.
 */
export async function followRedirects({ url, accept, egress, signal }: Asked): Promise<Followed> {
  const headers = { accept, 'user-agent': `wardline/${version}` }
  const answers: FetchedAnswer[] = []
  const result = (fault?: Followed['fault']) => ({ answers: answers as Followed['answers'], fault })
  for (let place = url; ; ) {
    const answer = await egress.get({ url: place.href, headers }, signal)
    answers.push(answer)
    const { location } = answer.headers
    if (![301, 302, 303, 307, 308].includes(answer.status) || location === undefined) return result()
    if (answers.length > maxRedirects)
      return result({ kind: 'too often', detail: `More than ${maxRedirects} redirects came one after another.` })
    const next = URL.parse(location, place.href)
    if (next?.protocol !== 'https:')
      return result({
        kind: 'unencrypted',
        detail: `A redirect leads away from https: ${next?.protocol ?? 'nowhere'}`,
      })
    place = next
  }
}
