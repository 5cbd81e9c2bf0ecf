import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { hostname } from 'node:os'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readConfig } from '../config/config.ts'
import { openTestService, type TestService } from '../testing/service.ts'
import { hostOf, servedHosts } from './host-check.ts'

describe('the host of an authority', () => {
  it.each([
    ['localhost', 'localhost'],
    ['LocalHost:4747', 'localhost'],
    ['wardline.example.com.', 'wardline.example.com'],
    ['wardline.example.com.:443', 'wardline.example.com'],
    ['wardline.example.com:', 'wardline.example.com'],
    ['192.0.2.7:4747', '192.0.2.7'],
    ['[::1]', '::1'],
    ['[2001:DB8::7]:4747', '2001:db8::7'],
  ])('of %s is %s', (authority, host) => {
    expect(hostOf(authority)).toBe(host)
  })

  it.each([
    '',
    ':4747',
    'user@localhost',
    'localhost@evil.example',
    'localhost, evil.example',
    'localhost evil.example',
    'evil.example/localhost',
    'evil.example#localhost',
    'evil.example?localhost',
    'evil.example\\localhost',
    '[::1',
    '::1]',
    '[::1]evil.example',
    '[localhost]',
    '[127.0.0.1]',
    '[fe80::1%eth0]',
    'localhost:4747:80',
    'localhost:x',
    'localhost:123456',
  ])('is undefined for %j', (authority) => {
    expect(hostOf(authority)).toBeUndefined()
  })
})

const hosts = (env: Record<string, string>) => servedHosts(readConfig(env), 'Box-7.corp.example')

describe('the served hosts', () => {
  const beyond = hosts({ HOST: '0.0.0.0' })
  const local = hosts({})

  it.each(['localhost', '127.0.0.1', '::1', '192.168.0.7', '2001:db8::7', 'box-7.corp.example', 'box-7', '0.0.0.0'])(
    'include %s when not on loopback',
    (host) => expect(beyond(host)).toBe(true),
  )

  it.each(['localhost', '127.0.0.1', '127.8.9.1', '::1'])('include %s on loopback', (host) => {
    expect(local(host)).toBe(true)
  })

  // A page can point its own name at the service's address; the browser then treats both as the same origin.
  it.each([
    'evil.example',
    'box-7.evil.example',
    'corp.example',
    'xbox-7',
    '127.0.0.1.evil.example',
    'localhost.evil.example',
    '0x7f000001',
    '2130706433',
    '127.1',
    '',
  ])('never include %j unless named', (host) => {
    expect(beyond(host)).toBe(false)
    expect(local(host)).toBe(false)
  })

  it('include neither addresses nor names of the machine on loopback, where no client uses them', () => {
    for (const host of ['192.168.0.7', '2001:db8::7', '0.0.0.0', 'box-7']) expect(local(host), host).toBe(false)
  })

  it.each(['0.0.0.0', '127.0.0.1'])('include the configured names when listening on %s', (host) => {
    const served = hosts({
      HOST: host,
      WARDLINE_PUBLIC_URL: 'https://Wardline.Example.com:8443/console',
      WARDLINE_ALLOWED_HOSTS: 'Monitor.Internal., *.fleet.example , bücher.example,, [2001:db8::9]',
    })
    for (const name of [
      'wardline.example.com',
      'monitor.internal',
      'a.fleet.example',
      'a.b.fleet.example',
      'xn--bcher-kva.example',
      '2001:db8::9',
    ]) {
      expect(served(name), name).toBe(true)
    }
    for (const name of [
      'fleet.example',
      '.fleet.example',
      'xfleet.example',
      'a.fleet.example.evil.example',
      'example.com',
      'x.monitor.internal',
    ]) {
      expect(served(name), name).toBe(false)
    }
  })

  it('include subdomains only of names configured with a star', () => {
    const name = fc.stringMatching(/^[a-z]{1,8}(\.[a-z]{1,8}){0,3}$/)
    fc.assert(
      fc.property(name, name, (allowed, asked) => {
        const served = hosts({ HOST: '0.0.0.0', WARDLINE_ALLOWED_HOSTS: allowed })
        fc.pre(!['localhost', 'box-7'].includes(asked))
        expect(served(asked)).toBe(asked === allowed)
      }),
    )
  })
})

describe('the settings', () => {
  it.each(['example.com:443', 'https://example.com', '*', '*.', 'a..b', 'a b', '*.*.example.com', 'x.*', '-a', 'a/b'])(
    'refuse %j as a host name and explain why',
    (value) => {
      expect(() => readConfig({ WARDLINE_ALLOWED_HOSTS: value })).toThrow(
        'WARDLINE_ALLOWED_HOSTS must be a comma-separated list of host names',
      )
    },
  )

  it.each(['example.com', 'ftp://example.com', 'https://u:p@example.com', 'https://example.com/?a', 'https://a b'])(
    'refuse %j as the public URL',
    (value) => {
      expect(() => readConfig({ WARDLINE_PUBLIC_URL: value })).toThrow('WARDLINE_PUBLIC_URL must')
    },
  )
})

describe('a service that does not listen on loopback', () => {
  let service: TestService
  let port: number
  beforeAll(async () => {
    service = await openTestService({
      env: {
        HOST: '0.0.0.0',
        WARDLINE_PUBLIC_URL: 'https://wardline.example.com',
        WARDLINE_TRUSTED_PROXIES: '127.0.0.1',
      },
    })
    await service.app.listen({ host: '127.0.0.1', port: 0 })
    port = (service.app.server.address() as AddressInfo).port
  })
  afterAll(() => service[Symbol.asyncDispose]())

  /** Sends a raw request and returns the status. */
  async function ask(lines: string[], target = '/api/status', version = '1.1'): Promise<number> {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    socket.write(
      `GET ${target} HTTP/${version}\r\n${lines.map((line) => `${line}\r\n`).join('')}connection: close\r\n\r\n`,
    )
    let text = ''
    for await (const bytes of socket) text += bytes
    return Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1])
  }

  it.each([
    'Host: wardline.example.com',
    'hOsT: WARDLINE.EXAMPLE.COM.:443',
    'Host: 192.0.2.7:4747',
    'Host: [2001:db8::7]:4747',
    `Host: ${hostname()}`,
    'Host: localhost:4747',
  ])('serves a request with %s', async (line) => {
    expect(await ask([line])).toBe(401)
    expect(await ask([line, 'X-Forwarded-Host: wardline.example.com'])).toBe(401)
  })

  it.each([
    ['another name', ['Host: evil.example'], '/api/status', 421],
    ['another name that a proxy replaced', ['Host: 127.0.0.1', 'X-Forwarded-Host: evil.example'], '/api/status', 421],
    [
      'one of several names that proxies replaced',
      ['Host: 127.0.0.1', 'X-Forwarded-Host: wardline.example.com, evil.example'],
      '/api/status',
      421,
    ],
    ['two hosts', ['Host: localhost', 'Host: evil.example'], '/api/status', 400],
    ['two hosts, the known one second', ['Host: evil.example', 'Host: localhost'], '/api/status', 400],
    ['the same host twice', ['Host: localhost', 'Host: localhost'], '/api/status', 400],
    ['no host', [], '/api/status', 400],
    ['an empty host', ['Host:'], '/api/status', 421],
    ['another name in the target', ['Host: localhost'], 'http://evil.example/api/status', 421],
    ['a login before the name in the target', ['Host: localhost'], 'http://localhost@evil.example/api/status', 421],
    ['a target without a host', ['Host: localhost'], 'http:///api/status', 421],
    ['a known name in the target', ['Host: evil.example'], 'http://localhost/api/status', 421],
  ])('refuses %s', async (_name, lines, target, status) => {
    expect(await ask(lines, target)).toBe(status)
  })

  it('serves a known name in the target like in the header', async () => {
    expect(await ask(['Host: localhost'], 'http://wardline.example.com/api/status')).toBe(401)
  })

  // Browsers cannot send such requests, but old health probes do.
  it('serves an HTTP/1.0 request without a host', async () => {
    expect(await ask([], '/healthz', '1.0')).toBe(200)
    expect(await ask(['Host: evil.example'], '/healthz', '1.0')).toBe(421)
  })

  it('keeps refusing unknown names after serving a known one, and names the settings', async () => {
    for (const host of ['localhost', 'evil.example', 'localhost', 'evil.example']) {
      const { status, body } = await service.call('GET', '/healthz', { headers: { host } })
      expect(status).toBe(host === 'localhost' ? 200 : 421)
      if (status !== 421) continue
      expect((body as { error: string }).error).toMatch(/WARDLINE_ALLOWED_HOSTS.*WARDLINE_PUBLIC_URL/)
    }
  })

  it('refuses unknown names on every route, including the stream and routes without a key', async () => {
    for (const path of ['/', '/api/stream', '/api/public/trust', '/metrics', '/docs', '/openapi.json', '/nowhere']) {
      const answer = await service.call('GET', path, { headers: { host: 'evil.example' } })
      expect(answer.status, path).toBe(421)
    }
  })
})

it('ignores X-Forwarded-Host without a trusted proxy', async () => {
  await using service = await openTestService()
  const headers = { host: 'localhost', 'x-forwarded-host': 'evil.example' }
  expect((await service.call('GET', '/healthz', { headers })).status).toBe(200)
  const reversed = { host: 'evil.example', 'x-forwarded-host': 'localhost' }
  expect((await service.call('GET', '/healthz', { headers: reversed })).status).toBe(421)
})
