import { describe, expect, it } from 'vitest'
import { destinationFault } from './destination.ts'

const resolve = async () => ['93.184.215.14', '2606:2800:21f::1']
const faultOf = (url: string, allow: string[] = [], addresses?: string[]) =>
  destinationFault(url, allow, { resolve: addresses === undefined ? resolve : async () => addresses })

describe('the URL of a channel', () => {
  it.each([
    ...['https://hooks.example.com/in/x?y=z', 'https://hooks.example.com:8443/', 'https://93.184.215.14/'],
    ...[
      'https://[2606:2800:21f::1]/',
      'smtp://mail.example.com',
      'smtps://mail.example.com',
      'smtp://mail.example.com:25',
    ],
    ...['smtps://user:p%40ss@mail.example.com:465', 'tcp://logs.example.com', 'tcp://logs.example.com:601'],
    ...['tls://logs.example.com', 'tls://[2606:2800:21f::1]:6514', 'HTTPS://HOOKS.EXAMPLE.COM/'],
  ])('is accepted: %s', async (url) => {
    expect(await faultOf(url)).toBeUndefined()
  })

  it.each([
    ['no URL', 'must be a URL.'],
    ['ftp://h.example/', 'must begin with https://, http://, smtp://, smtps://, tcp://, tls://.'],
    ['file:///etc/passwd', 'must begin with https://, http://, smtp://, smtps://, tcp://, tls://.'],
    ['tcp://', 'must name a host.'],
    ['https://user@h.example/', 'must not contain a user or a password.'],
    ['http://:s3cret@h.example/', 'must not contain a user or a password.'],
    ['tls://user:s3cret@h.example/', 'must not contain a user or a password.'],
    ['https://h.example:22/', 'must use port 80, 443 or a port of at least 1024.'],
    ['https://h.example:0/', 'must use port 80, 443 or a port of at least 1024.'],
    ['smtp://h.example:22', 'must use port 25, 465, 514, 587, 601 or a port of at least 1024.'],
    ['tcp://h.example:443', 'must use port 25, 465, 514, 587, 601 or a port of at least 1024.'],
    ['https://127.0.0.1/', 'leads to 127.0.0.1, which WARDLINE_ALERT_ALLOW_CIDRS does not allow.'],
    ['tls://[fd00::1]', 'leads to fd00::1, which WARDLINE_ALERT_ALLOW_CIDRS does not allow.'],
    [
      'http://h.example/s3cret',
      'must use https://: http:// is only allowed for addresses in WARDLINE_ALERT_ALLOW_CIDRS.',
    ],
  ])('is rejected with a reason: %s', async (url, fault) => {
    expect(await faultOf(url)).toBe(fault)
  })

  it('is rejected if one of the addresses of its name is forbidden', async () => {
    const fault = 'resolves to 10.0.0.7, which WARDLINE_ALERT_ALLOW_CIDRS does not allow.'
    for (const scheme of ['https', 'http', 'smtp', 'smtps', 'tcp', 'tls']) {
      expect(await faultOf(`${scheme}://h.example`, [], ['93.184.215.14', '10.0.0.7'])).toBe(fault)
    }
  })

  it('is accepted for addresses in the allow-list, even with plain HTTP', async () => {
    const allow = ['10.0.0.0/24', 'fd00::/8']
    expect(await faultOf('http://h.example/', allow, ['10.0.0.7', 'fd00::7'])).toBeUndefined()
    expect(await faultOf('http://10.0.0.7:8080/', allow)).toBeUndefined()
    expect(await faultOf('tcp://10.0.0.7', allow)).toBeUndefined()
    expect(await faultOf('http://h.example/', allow, ['10.0.0.7', '93.184.215.14'])).toMatch(/^must use https/)
    expect(await faultOf('https://h.example/', allow, ['10.0.1.7'])).toMatch(/^resolves to 10\.0\.1\.7/)
  })

  // The name service may be unavailable now; each attempt checks the addresses again.
  it('is accepted if its name cannot be resolved', async () => {
    const unknown = async () => Promise.reject(Object.assign(new Error(), { code: 'ENOTFOUND' }))
    const silent = () => new Promise<string[]>(() => {})
    expect(await destinationFault('https://h.example/', [], { resolve: unknown })).toBeUndefined()
    expect(await destinationFault('http://h.example/', [], { resolve: silent, withinMs: 20 })).toBeUndefined()
    expect(await faultOf('https://h.example/', [], [])).toBeUndefined()
  })

  it('is resolved by the name service of the machine by default', async () => {
    expect(await destinationFault('https://localhost/', [])).toMatch(/^resolves to (127\.0\.0\.1|::1), which/)
  })
})
