import { once } from 'node:events'
import { type AddressInfo, createServer, isIP, type Server } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { destinationFault } from './destination.ts'
import { EgressError } from './egress.ts'
import { createEgress } from './open-egress.ts'
import { askSystem, type Resolve } from './resolve.ts'

// Every URL here leads to this machine, its network or its cloud's metadata if it is parsed carelessly. An operator who
// may create channels could make the service call internal hosts, and read the responses in the delivery log (SSRF).

const spellings: Record<string, string[]> = {
  plainly: [
    ...['127.0.0.1', '127.0.0.2', '127.1.2.3', '127.255.255.254', '0.0.0.0', '0.1.2.3', '10.0.0.1', '10.255.255.255'],
    ...['172.16.0.1', '172.31.255.255', '192.168.0.1', '192.168.255.255', '100.64.0.1', '100.127.255.254'],
    ...['169.254.169.254', '169.254.170.2', '100.100.100.200', '192.0.0.192', '168.63.129.16', '198.18.0.1'],
    ...['192.0.2.1', '198.51.100.1', '203.0.113.1', '224.0.0.1', '239.255.255.250', '240.0.0.1', '255.255.255.255'],
  ],
  'in octal': [
    ...['0177.0.0.1', '0177.0.0.01', '0177.00.00.01', '00000177.0.0.1', '0177.1', '0177.0.1'],
    ...['0012.0.0.1', '0300.0250.0.1', '0251.0376.0251.0376', '025177524776'],
  ],
  'in hexadecimal': [
    ...['0x7f.0.0.1', '0x7F.0x0.0x0.0x1', '0x7f.1', '0x7f.0.1', '0x7f000001', '0X7F000001', '0x000000007f000001'],
    ...['0x0a000001', '0xc0.0xa8.0.1', '0xa9.0xfe.0xa9.0xfe', '0xa9fea9fe', '0x7f.0x1', '0x'],
  ],
  'in decimal': ['2130706433', '017700000001', '3232235521', '2852039166', '167772161', '0', '1', '4294967295'],
  'in short or mixed': [
    ...['127.1', '127.0.1', '127.65535', '10.1', '192.168.1', '172.1048577', '169.254.43518', '127.0x1', '0x7f.0.0.01'],
    ...['0177.0.0x0.1', '127.00.000.0001', '127.0.0.0x1', '00.0.0.0'],
  ],
  'with signs that are not ASCII': [
    ...[
      '①②⑦.⓪.⓪.①',
      '１２７.０.０.１',
      '127。0。0。1',
      '127．0．0．1',
      '127｡0｡0｡1',
      '𝟏𝟐𝟕.𝟎.𝟎.𝟏',
      '𝟙𝟚𝟟.0.0.1',
      '⑴27.0.0.1',
    ],
    ...[
      'ⓛⓞⓒⓐⓛⓗⓞⓢⓣ',
      'ｌｏｃａｌｈｏｓｔ',
      'LOCALHOST',
      'ʟocalhost',
      'lo\u00adcalhost',
      '0ˣ7f.1',
      '⑩.0.0.1',
      '１69.254.169.254',
    ],
    ...['locaⅼhost', 'ſocalhost', '127.0.0.①', '\u200b127.0.0.1', '127.0.0.1\u2060'],
  ],
  'with encoded signs': [
    ...[
      '%31%32%37.0.0.1',
      '127%2e0%2e0%2e1',
      '127.0.0.%31',
      '%6cocalhost',
      '0%78%37f.1',
      '%E2%91%A0%E2%91%A1%E2%91%A6.0.0.1',
    ],
    ...['127.0.0.1%00', '127.0.0.1%2f', 'localhost%23', '127.0.0.1%0a', '%5B::1%5D'],
  ],
  'with dots at the end': [
    '127.0.0.1.',
    '127.1.',
    '0x7f.1.',
    'localhost.',
    '2130706433.',
    '127.0.0.1..',
    'localhost..',
  ],
  'in IPv6': [
    ...['[::1]', '[::]', '[0:0:0:0:0:0:0:1]', '[0000:0000:0000:0000:0000:0000:0000:0001]', '[::0.0.0.1]', '[0::1]'],
    ...[
      '[fe80::1]',
      '[febf::1]',
      '[fec0::1]',
      '[fc00::1]',
      '[fd00:ec2::254]',
      '[fd20:ce::254]',
      '[ff02::1]',
      '[FE80::1]',
    ],
    ...['[100::1]', '[2001:db8::1]', '[3fff::1]', '[5f00::1]', '[2001::1]', '[2001:20::1]', '[64:ff9b:1::7f00:1]'],
  ],
  'as IPv4 in IPv6': [
    ...['[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[::FFFF:7F00:1]', '[0:0:0:0:0:ffff:127.0.0.1]', '[::ffff:10.0.0.1]'],
    ...['[::ffff:169.254.169.254]', '[::ffff:0.0.0.0]', '[::127.0.0.1]', '[::7f00:1]', '[::ffff:0:127.0.0.1]'],
    ...['[64:ff9b::127.0.0.1]', '[64:ff9b::7f00:1]', '[64:ff9b::a9fe:a9fe]', '[2002:7f00:1::]', '[2002:a00:1::1]'],
    ...['[2001:0:7f00:1::]', '[2001:0:4136:e378:8000:63bf:80ff:fffe]', '[::ffff:0177.0.0.1]', '[::ffff:2130706433]'],
  ],
  'with a zone': ['[::1%25lo]', '[fe80::1%25eth0]', '[::1%lo]', '[fe80::1%eth0]', '[::1%2525lo]'],
  'behind a user': [
    ...['user@127.0.0.1', 'hooks.example.com@127.0.0.1', 'hooks.example.com:443@127.0.0.1', 'user:pass@localhost'],
    ...['@127.0.0.1', ':@127.0.0.1', 'hooks.example.com%40@127.0.0.1', 'a@b@127.0.0.1', 'hooks.example.com#@127.0.0.1'],
    ...['127.0.0.1\\@hooks.example.com', '127.0.0.1#@hooks.example.com', '127.0.0.1?@hooks.example.com'],
    ...['hooks.example.com\\@127.0.0.1', '127.0.0.1%5c@hooks.example.com', '127.0.0.1/@hooks.example.com'],
  ],
  'by a name': [
    ...[
      'localhost',
      'localhost.localdomain',
      'localtest.me',
      '127.0.0.1.nip.io',
      'metadata.google.internal',
      'intranet',
    ],
    ...['six.example.com', 'mapped.example.com', 'both.example.com', 'zone.example.com', 'xn--bcher-kva.example'],
    ...['bücher.example', 'BÜCHER.EXAMPLE', 'bu\u0308cher.example'],
  ],
  'with spaces around': [' 127.0.0.1', '\t127.0.0.1', '127.0.0.1\n', '127.\n0.0.1', '12\t7.0.0.1', 'local\rhost'],
}

/** Results of the name service. Numeric forms of IPv4 addresses are resolved without it. */
const names: Record<string, string[]> = {
  'localhost.localdomain': ['127.0.0.1'],
  'localtest.me': ['127.0.0.1', '::1'],
  '127.0.0.1.nip.io': ['127.0.0.1'],
  'metadata.google.internal': ['169.254.169.254'],
  intranet: ['10.0.0.7'],
  'six.example.com': ['::1'],
  'mapped.example.com': ['::ffff:127.0.0.1'],
  'zone.example.com': ['::1%lo'],
  // One forbidden address is enough, because any of them may be used.
  'both.example.com': ['93.184.215.14', '2606:2800:21f::1', '127.0.0.1'],
  'xn--bcher-kva.example': ['127.0.0.1'],
  localhost: ['127.0.0.1', '::1'],
  // An attacker's name with a private address, which no form of URL may reach.
  'hooks.example.com': ['127.0.0.1'],
}
/** Forms of IPv4 addresses that the system's resolver accepts; with a trailing dot it would send them to DNS. */
const isNumeric = (name: string): boolean =>
  /^[\da-fx.]*[\da-f]$/i.test(name) && isIP(URL.parse(`http://${name}`)?.host ?? '') === 4
const resolve: Resolve = async (name) => {
  if (isNumeric(name) || name === 'localhost') return askSystem(name, AbortSignal.timeout(5_000))
  const found = names[name.toLowerCase().replace(/\.$/, '')]
  if (found === undefined) throw Object.assign(new Error(), { code: 'ENOTFOUND' })
  return found
}

let port = 0
let connections = 0
const listeners: Server[] = []

/** Listens on the same port of both loopback addresses, or of one on a machine without IPv6. */
async function listen(): Promise<void> {
  for (const host of ['127.0.0.1', '::1']) {
    const server = createServer((socket) => {
      connections += 1
      socket.on('error', () => {}).resume()
      socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n')
    })
    server.listen(port, host)
    const isListening = await once(server, 'listening').then(
      () => true,
      () => false,
    )
    if (!isListening) continue
    port = (server.address() as AddressInfo).port
    listeners.push(server)
  }
}

const request = (url: string) => ({ url, headers: {}, body: '{}' })
/** Builds a URL from a spelling, with the port of the listener after the host. */
const urlOf = (scheme: string, spelling: string): string => {
  const [, front = '', rest = ''] = /^(.*?)((?:[\\/?#].*)?)$/s.exec(spelling) ?? []
  return `${scheme}${front}:${port}${rest}/path`
}
const all = Object.entries(spellings).flatMap(([how, hosts]) => hosts.map((host) => ({ how, host })))

const guarded = createEgress({ guarded: true, allow: [], resolve })
const open = createEgress({ guarded: false, allow: [], resolve })
const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'nothing failed',
    (fault) => fault,
  )
beforeAll(listen)
afterAll(async () => {
  guarded.close()
  open.close()
  for (const server of listeners) await once(server.close(), 'close')
})

/** Errors of the rules, of the URL parser, or of a name service without a result. */
const refusal =
  /WARDLINE_ALERT_ALLOW_CIDRS does not allow\.$|must not contain a user|is not valid\.$|could not be resolved/

describe('a guarded egress', () => {
  it('is tested with more than 150 spellings', () => {
    expect(all.length).toBeGreaterThan(150)
  })

  it.each(all)('opens no connection for https://$host ($how)', async ({ host }) => {
    connections = 0
    for (const scheme of ['https://', 'HTTPS://', 'https:\\\\', 'https:', 'https:////']) {
      const fault = await failureOf(guarded.post(request(urlOf(scheme, host))))
      expect(fault).toBeInstanceOf(EgressError)
      expect((fault as Error).message).toMatch(refusal)
    }
    expect(connections).toBe(0)
  })

  it.each(all)('opens no connection for http://$host ($how)', async ({ host }) => {
    connections = 0
    const fault = await failureOf(guarded.post(request(urlOf('http://', host))))
    expect((fault as Error).message).toMatch(refusal)
    expect(connections).toBe(0)
  })

  // URLs with schemes unknown to browsers keep the host as written, and the system parses it by other rules.
  it.each(all)('opens no connection for tcp://$host ($how)', async ({ host }) => {
    connections = 0
    const url = URL.parse(urlOf('tcp://', host))
    const hosts = [host, ...(url === null ? [] : [url.hostname, url.hostname.replace(/^\[(.*)\]$/, '$1')])]
    for (const tls of [true, false]) {
      for (const each of hosts) {
        const fault = await failureOf(guarded.connect({ host: each, port, tls }))
        expect((fault as Error).message).toMatch(refusal)
      }
    }
    expect(connections).toBe(0)
  })

  it.each([
    ...[
      'ftp://127.0.0.1/',
      'file:///etc/passwd',
      'data:,x',
      'gopher://127.0.0.1/',
      'ws://127.0.0.1/',
      'unix:/run/x.sock',
    ],
    ...['javascript:0', 'blob:https://127.0.0.1/x', 'tcp://127.0.0.1/', '//127.0.0.1/', '127.0.0.1', '', 'https://'],
  ])('rejects a POST to %s', async (url) => {
    expect(await failureOf(guarded.post(request(url)))).toBeInstanceOf(EgressError)
  })
})

describe('the settings of a channel', () => {
  it.each(all)('are rejected for $host ($how), unless its name cannot be resolved', async ({ host }) => {
    const faults =
      /^(must be a URL\.|must not contain a user or a password\.|(leads|resolves) to \S+, which WARDLINE_.*\.)$/
    for (const scheme of ['https://', 'http://', 'smtp://', 'smtps://', 'tcp://', 'tls://']) {
      const url = urlOf(scheme, host)
      const name = URL.parse(url)?.hostname.replace(/^\[(.*)\]$/, '$1') ?? ''
      const found = isIP(name) === 0 ? await resolve(name, AbortSignal.timeout(5_000)).catch(() => null) : [name]
      const fault = await destinationFault(url, [], { resolve })
      if (fault === undefined) expect([name, found]).toEqual([expect.stringMatching(/./), null])
      else expect(fault).toMatch(faults)
    }
  })
})

describe('an egress without a guard', () => {
  // Proves that the URLs of the tests above do reach the listener without the guard.
  it.each([
    ...['127.0.0.1', '0177.0.0.1', '0x7f.1', '2130706433', '127.1', '①②⑦.0.0.1', '%31%32%37.0.0.1', '127.0.0.1.'],
    ...['localhost', 'localtest.me', 'bücher.example', 'ⓛⓞⓒⓐⓛⓗⓞⓢⓣ', '127.0.0.1\\@hooks.example.com', '12\t7.0.0.1'],
    ...['[::ffff:127.0.0.1]', '[::ffff:7f00:1]'],
  ])('reaches the listener by %s', async (host) => {
    connections = 0
    expect(await open.post(request(urlOf('http://', host)))).toMatchObject({ status: 200 })
    expect(connections).toBe(1)
  })

  it.each(['0177.0.0.1', '0x7f.1', '2130706433', '127.1', 'localhost', '::ffff:127.0.0.1'])(
    'opens a connection to %s',
    async (host) => {
      connections = 0
      const socket = await open.connect({ host, port, tls: false })
      await once(socket.resume(), 'close')
      expect(connections).toBe(1)
    },
  )
})
