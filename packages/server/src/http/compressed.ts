import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'

/** Below this size, compression costs more than it saves. */
const minGzipBytes = 2_048

const compress = promisify(gzip)

/** Whether the header lists `gzip` without `;q=0`. */
const acceptsGzip = (given: string | string[] | undefined): boolean =>
  /\bgzip\b(?!;q=0(\.0*)?(,|$))/.test(String(given ?? ''))

/** Returns the answer as it is sent, compressed for clients that accept it. */
export async function compressed<Answer>(
  answer: Answer,
  { headers }: Pick<FastifyRequest, 'headers'>,
  reply: FastifyReply,
): Promise<Answer> {
  const text = JSON.stringify(answer)
  reply.headers({ 'content-type': 'application/json; charset=utf-8', vary: 'accept-encoding' })
  if (text.length < minGzipBytes || !acceptsGzip(headers['accept-encoding'])) return text as never
  reply.header('content-encoding', 'gzip')
  return (await compress(text, { level: 4 })) as never
}
