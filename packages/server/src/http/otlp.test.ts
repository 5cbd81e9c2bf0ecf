import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { listenOnFreePort } from '../testing/control-stream.ts'
import { openTestService, type TestService } from '../testing/service.ts'

const mebibyte = 1024 * 1024

let service: TestService
let url: string
const open = new Set<Socket>()
beforeEach(async () => {
  service = await openTestService()
  url = await listenOnFreePort(service.app)
})
afterEach(async () => {
  for (const socket of open) socket.destroy()
  open.clear()
  await service[Symbol.asyncDispose]()
})

interface Begun {
  socket: Socket
  /** Resolves with the head and body of the answer. */
  answer: Promise<string>
}

/** Sends the head of a request and a part of its body, which does not end. */
async function begin(key: string, part: Buffer, headers = ''): Promise<Begun> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1').setEncoding('latin1')
  open.add(socket)
  socket.on('error', () => {})
  const answer = once(socket, 'data').then(([text]) => text as string)
  answer.catch(() => {})
  const length = headers.includes('chunked') ? '' : `content-length: ${4 * mebibyte}\r\n`
  socket.write(
    `POST /v1/traces HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${key}\r\ncontent-type: application/x-protobuf\r\n${length}${headers}\r\n`,
  )
  await new Promise<void>((resolve) => socket.write(part, () => resolve()))
  return { socket, answer }
}

const send = async (key: string, body: Buffer, headers: Record<string, string> = {}) => {
  const reply = await fetch(`${url}/v1/traces`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/x-protobuf', ...headers },
    body: new Uint8Array(body),
  })
  await reply.arrayBuffer()
  return reply
}
/** A field that is not read, as large as a body may be. */
const large = Buffer.concat([Buffer.from([0x7a, 0xf0, 0xff, 0xff, 0x01]), Buffer.alloc(4 * mebibyte - 16)])

describe('bodies of telemetry', () => {
  // Attack: an agent opens many requests, sends most of each body, and never ends them.
  it('of one key have a part of the room, which ends with them', async () => {
    const { key } = await service.createKey('agent', ['bot'])
    const { key: other } = await service.createKey('agent', ['other'])
    // Its buffer has 4 MiB.
    const part = Buffer.alloc(2.1 * mebibyte)
    const begun: Begun[] = []
    let refusal: string | undefined
    while (refusal === undefined) {
      const next = await begin(key, part)
      begun.push(next)
      refusal = await Promise.race([next.answer, new Promise<undefined>((resolve) => setImmediate(resolve, undefined))])
      // The service reads at its own pace.
      if (begun.length > 16) refusal ??= await Promise.race(begun.map(({ answer }) => answer))
    }
    expect(begun.length).toBeGreaterThanOrEqual(16)
    expect(refusal).toMatch(/^HTTP\/1\.1 503 .*\r\nretry-after: 1\r\n/s)
    expect((await send(other, large)).status).toBe(200)
    expect((await send(key, large)).status).toBe(503)
    for (const { socket } of begun) socket.destroy()
    await expect.poll(async () => (await send(key, large)).status).toBe(200)
  })

  it('are bounded after inflating too, and give their room back', async () => {
    const { key } = await service.createKey('agent', ['bot'])
    const bomb = gzipSync(Buffer.alloc(20 * mebibyte))
    const headers = { 'content-encoding': 'gzip' }
    for (let count = 0; count < 20; count++) expect((await send(key, bomb, headers)).status).toBe(413)
    expect((await send(key, gzipSync(large), headers)).status).toBe(200)
    expect((await send(key, gzipSync(large).subarray(0, 50), headers)).status).toBe(400)
  })

  it('may arrive byte by byte', async () => {
    const { key } = await service.createKey('agent', ['bot'])
    const chunks = '1\r\n\x7a\r\n1\r\n\x01\r\n1\r\n\0\r\n0\r\n\r\n'
    const { answer } = await begin(key, Buffer.from(chunks, 'latin1'), 'transfer-encoding: chunked\r\n')
    expect(await answer).toMatch(/^HTTP\/1\.1 200 /)
  })
})

describe('a refusal of a key', () => {
  it.each([
    [{ authorization: 'Bearer wrong' }, 'The key in Authorization is not valid.'],
    [{ 'x-monitor-key': 'wrong' }, 'The key in X-Monitor-Key is not valid.'],
    [{ 'x-monitor-key': 'wrong', authorization: 'Bearer other' }, 'The key in X-Monitor-Key is not valid.'],
    [{}, 'A key is required in the header X-Monitor-Key, or as bearer in Authorization.'],
  ])('names the header of %o', async (headers, message) => {
    const reply = await fetch(`${url}/v1/traces`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(headers as Record<string, string>) },
      body: '{}',
    })
    expect(await reply.json()).toEqual({ code: 16, message })
  })
})
