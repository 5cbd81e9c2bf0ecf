// Signs requests to AWS by Signature Version 4 (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html).

import { createHash, createHmac } from 'node:crypto'

export interface AwsKey {
  id: string
  secret: string
  /** Of temporary keys. */
  sessionToken?: string
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()

/** Returns the headers of a POST of a form to the root of a host, `at` milliseconds since 1970. */
export function signed(
  { host, region, service, body }: { host: string; region: string; service: string; body: string },
  key: AwsKey,
  at: number,
): Record<string, string> {
  const time = new Date(at).toISOString().replace(/[:-]|\.\d{3}/g, '')
  const headers: Record<string, string> = {
    'content-type': 'application/x-www-form-urlencoded',
    host,
    'x-amz-date': time,
    ...(key.sessionToken === undefined ? {} : { 'x-amz-security-token': key.sessionToken }),
  }
  // In the order of the alphabet, as AWS does.
  const names = Object.keys(headers).sort()
  const lines = names.map((name) => `${name}:${headers[name]}\n`).join('')
  const request = ['POST', '/', '', lines, names.join(';'), sha256(body)].join('\n')
  const scope = `${time.slice(0, 8)}/${region}/${service}/aws4_request`
  const signingKey = scope.split('/').reduce<string | Buffer>(hmac, `AWS4${key.secret}`)
  const signature = hmac(signingKey, ['AWS4-HMAC-SHA256', time, scope, sha256(request)].join('\n')).toString('hex')
  const authorization = `AWS4-HMAC-SHA256 Credential=${key.id}/${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`
  return { ...headers, authorization }
}
