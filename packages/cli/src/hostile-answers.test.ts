import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { createClient } from '@wardline/contract'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { openEventStream } from './events/event-stream.ts'
import { rawRequest } from './service/raw-request.ts'
import { leadsOn } from './service/reply-shape.ts'
import { findService } from './service/service.ts'

// A server that is not Wardline must not fill the client's memory or receive the key by a redirect.

async function start(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer((request, response) => {
    request.resume()
    response.on('error', () => {})
    answer(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const streamOf = (url: string) => ({
  url,
  path: '/api/stream',
  key: 'key',
  keyFrom: 'a test',
  signal: AbortSignal.timeout(20_000),
})

const callers: [string, (url: string) => Promise<unknown>][] = [
  ['the client', (url) => createClient({ url, key: 'key' })('listKeys', {})],
  [
    'a client that sends',
    (url) => createClient({ url, key: 'key' })('resumeInstance', { params: { instanceId: 'a' } }),
  ],
  ['a raw request', (url) => rawRequest(url, '/healthz', { key: 'key' })],
  ['a stream', (url) => openEventStream(streamOf(url))],
]

describe.each(callers)('%s', (_name, ask) => {
  test('requests an uncompressed response, and rejects a compressed one', async () => {
    const asked: unknown[] = []
    const url = await start((request, response) => {
      asked.push(request.headers['accept-encoding'])
      response
        .writeHead(200, { 'content-encoding': 'gzip', 'content-type': 'text/event-stream' })
        .end(gzipSync('{"ok":true}'))
    })
    await expect(ask(url)).rejects.toThrow('compressed (gzip)')
    expect(asked).toEqual(['identity'])
  })

  test('rejects a response that exceeds the limit, and closes the connection', async () => {
    let written = 0
    let isClosed = false
    const part = Buffer.alloc(256 * 1024, ' ')
    const url = await start((_request, response) => {
      response.on('close', () => {
        isClosed = true
      })
      response.writeHead(500)
      const write = () => {
        while (!response.destroyed) {
          written += part.length
          if (!response.write(part)) return
        }
      }
      response.on('drain', write)
      write()
    })
    await expect(ask(url)).rejects.toThrow(/more than \d+ bytes/)
    await vi.waitFor(() => expect(isClosed).toBe(true), 20_000)
    // Includes the buffers at both ends.
    expect(written).toBeLessThan(64 * 1024 * 1024)
  })

  test('does not send its key to a redirect', async () => {
    const keys: unknown[] = []
    const other = await start((request, response) => {
      keys.push(request.headers['x-monitor-key'])
      response.end('{}')
    })
    const url = await start((_request, response) => response.writeHead(307, { location: other }).end('{}'))
    await ask(url).catch(() => {})
    expect(keys).toEqual([])
  })
})

describe('a hostile server', () => {
  // Otherwise the command would request pages and fill its memory until it is interrupted.
  test('is rejected if its list repeats a cursor', async () => {
    vi.stubEnv('WARDLINE_KEY', 'key')
    onTestFinished(() => void vi.unstubAllEnvs())
    let asked = 0
    const url = await start((_request, response) => {
      asked += 1
      response.end('{"events":[],"next":"5"}')
    })
    const { call } = await findService({ url })
    const { next } = await call('listEvents', { query: {} })
    await expect(call('listEvents', { query: { before: next! } })).rejects.toThrow('its list repeats entries')
    expect(asked).toBe(2)
  })

  test.each<[string, Parameters<typeof leadsOn>, boolean]>([
    ['a first page', [{}, { next: '5' }], true],
    ['a last page', [{ before: '5' }, { next: null }], true],
    ['a page further down', [{ before: '10', after: '3' }, { next: '9' }], true],
    ['a page further up', [{ after: '9' }, { next: '10' }], true],
    ['ids in order', [{ after: 'agent-9' }, { next: 'agent-a' }], true],
    ['the same page', [{ before: '9' }, { next: '9' }], false],
    ['a page higher up', [{ before: '9', after: '3' }, { next: '10' }], false],
    ['the same ids', [{ after: 'agent-a' }, { next: 'agent-a' }], false],
    ['earlier ids', [{ after: 'b' }, { next: 'a' }], false],
  ])('is checked for progress between cursors: %s', (_what, page, isSo) => {
    expect(leadsOn(...page)).toBe(isSo)
  })

  test('is quoted with at most 500 characters in an error', async () => {
    vi.stubEnv('WARDLINE_KEY', 'key')
    onTestFinished(() => void vi.unstubAllEnvs())
    const url = await start((_request, response) => {
      response.writeHead(500, { 'x-error-code': 'internal' }).end(JSON.stringify({ error: 'x'.repeat(100_000) }))
    })
    const { call } = await findService({ url })
    const fault = await call('listKeys', {}).catch((thrown: Error) => thrown)
    expect((fault as Error).message).toBe(`${'x'.repeat(499)}…`)
  })
})
