import { EgressError, type EgressFault } from './egress.ts'

/** Sentences by error code of Node, OpenSSL or llhttp; the first match is used. */
const sentences: [code: RegExp, sentence: (host: string, code: string) => string, kind?: EgressFault][] = [
  [/^(ENOTFOUND|EAI_\w+)$/, (host, code) => `The name ${host} could not be resolved (${code}).`],
  [/^ECONNREFUSED$/, (host) => `${host} refused the connection.`],
  [/^(ECONNRESET|EPIPE)$/, (host) => `${host} closed the connection without an answer.`],
  [/^ERR_TLS_CERT_ALTNAME_INVALID$/, (host) => `${host} presented the certificate of another host.`, 'certificate'],
  [
    /CERT|^INVALID_|^UNABLE_TO_|^PATH_LENGTH_/,
    (host, code) => `${host} presented a certificate that is not trusted (${code}).`,
    'certificate',
  ],
  [/^(EPROTO|ERR_SSL_\w+)$/, (host, code) => `${host} and this service could not agree on TLS (${code}).`],
  [/^HPE_HEADER_OVERFLOW$/, (host) => `The headers of the answer from ${host} are too large.`],
  [/^HPE_/, (host, code) => `The answer from ${host} is not HTTP (${code}).`],
  [/^E[A-Z]+$/, (host, code) => `${host} could not be reached (${code}).`],
]

/** Converts an error to a sentence that reveals only the host, nothing else of the URL, headers or body. */
export function egressError(fault: unknown, host: string): EgressError {
  if (fault instanceof EgressError) return fault
  const { code = 'unknown' } = fault as NodeJS.ErrnoException
  const [, sentence, kind] = sentences.find(([pattern]) => pattern.test(code)) ?? []
  return new EgressError(sentence?.(host, code) ?? `Nothing could be sent to ${host} (${code}).`, kind)
}
