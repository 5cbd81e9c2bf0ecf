import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { manualClock } from '../testing/clock.ts'
import { candidatesOf, parseHosts, parseSearch } from './name-files.ts'
import { createNameService } from './name-service.ts'
import { createEgress } from './open-egress.ts'

const types: Record<number, 'A' | 'AAAA'> = { 1: 'A', 28: 'AAAA' }

/** Starts a name server. Names below `dead.test` get no answer. */
async function startNameServer(records: Record<string, { A?: string[]; AAAA?: string[] | 'silent' }>) {
  const asked: string[] = []
  const socket: Socket = createSocket('udp4')
  socket.on('message', (query, from) => {
    let at = 12
    const labels: string[] = []
    while (query[at] !== 0) {
      labels.push(query.toString('latin1', at + 1, at + 1 + query[at]!))
      at += 1 + query[at]!
    }
    const question = query.subarray(12, at + 5)
    const type = types[query.readUInt16BE(at + 1)]!
    const name = labels.join('.').toLowerCase()
    asked.push(`${type} ${name}`)
    if (name.endsWith('dead.test')) return
    const record = records[name]
    const found = record?.[type] ?? []
    if (found === 'silent') return
    const header = Buffer.alloc(12)
    query.copy(header, 0, 0, 2)
    // A response with recursion available; 3 = NXDOMAIN.
    header.writeUInt16BE(0x8180 | (record ? 0 : 3), 2)
    header.writeUInt16BE(1, 4)
    header.writeUInt16BE(found.length, 6)
    const answers = found.map((address) => {
      const data =
        type === 'A'
          ? Buffer.from(address.split('.').map(Number))
          : Buffer.concat([Buffer.alloc(15), Buffer.from([Number(address.split(':').at(-1))])])
      const fixed = Buffer.alloc(12)
      fixed.writeUInt16BE(0xc00c, 0)
      fixed.writeUInt16BE(type === 'A' ? 1 : 28, 2)
      fixed.writeUInt16BE(1, 4)
      fixed.writeUInt16BE(data.length, 10)
      return Buffer.concat([fixed, data])
    })
    socket.send(Buffer.concat([header, question, ...answers]), from.port, from.address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return { asked, address: `127.0.0.1:${socket.address().port}`, close: () => socket.close() }
}

let folder = ''
let server: Awaited<ReturnType<typeof startNameServer>>
const clock = manualClock()
const files = (hosts = '', resolv = '') => {
  const [hostsFile, resolvConf] = [join(folder, 'hosts'), join(folder, 'resolv.conf')]
  writeFileSync(hostsFile, hosts)
  writeFileSync(resolvConf, resolv)
  return { hostsFile, resolvConf }
}
const serviceOf = (hosts?: string, resolv?: string) =>
  createNameService({ servers: [server.address], clock, ...files(hosts, resolv) })
const never = () => new AbortController().signal
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'resolved',
    (fault) => (fault instanceof DOMException ? fault.name : fault.code),
  )

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'wardline-names-'))
  server = await startNameServer({
    'hooks.good.test': { A: ['127.0.0.1'] },
    'both.good.test': { A: ['127.0.0.1', '127.0.0.2'], AAAA: ['::1'] },
    'half.good.test': { A: ['127.0.0.1'], AAAA: 'silent' },
    'receiver.ns.cluster.test': { A: ['127.0.0.9'] },
  })
})
afterEach(async () => {
  server.close()
  await rm(folder, { recursive: true })
})

describe('a name', () => {
  it('resolves to the addresses of both families', async () => {
    expect((await serviceOf()('both.good.test', never())).toSorted()).toEqual(['127.0.0.1', '127.0.0.2', '::1'])
  })

  it('resolves to the addresses of one family if the other gets no answer', async () => {
    expect(await serviceOf()('half.good.test', never())).toEqual(['127.0.0.1'])
  })

  it('is looked up in the current hosts file first', async () => {
    const resolve = serviceOf('192.0.2.7 Hooks.Good.test alias # comment\n::1 alias\n')
    expect(await resolve('hooks.good.test', never())).toEqual(['192.0.2.7'])
    expect(await resolve('ALIAS', never())).toEqual(['192.0.2.7', '::1'])
    expect(server.asked).toEqual([])
    files('192.0.2.77 hooks.good.test')
    expect(await resolve('hooks.good.test', never())).toEqual(['192.0.2.77'])
  })

  it('is completed with the search domains of resolv.conf', async () => {
    const resolve = serviceOf('', 'search other.test ns.cluster.test\noptions ndots:5\n')
    expect(await resolve('receiver', never())).toEqual(['127.0.0.9'])
    expect(await resolve('hooks.good.test', never())).toEqual(['127.0.0.1'])
    server.asked.splice(0)
    expect(await codeOf(resolve('receiver.', never()))).toBe('ENOTFOUND')
    expect(server.asked.toSorted()).toEqual(['A receiver', 'AAAA receiver'])
  })

  it('is resolved without a query if it is localhost or a numeric address', async () => {
    const resolve = serviceOf()
    expect(await resolve('localhost', never())).toEqual(['127.0.0.1', '::1'])
    expect(await resolve('x.localhost.', never())).toEqual(['127.0.0.1', '::1'])
    expect(await resolve('0x7f.1', never())).toEqual(['127.0.0.1'])
    expect(server.asked).toEqual([])
  })

  it('is queried once for concurrent callers, and again later', async () => {
    const resolve = serviceOf()
    await Promise.all(Array.from({ length: 20 }, () => resolve('hooks.good.test', never())))
    expect(server.asked.toSorted()).toEqual(['A hooks.good.test', 'AAAA hooks.good.test'])
    await resolve('hooks.good.test', never())
    expect(server.asked).toHaveLength(4)
  })

  it('is not queried again within two seconds if it does not exist', async () => {
    const resolve = serviceOf()
    expect(await codeOf(resolve('unknown.test', never()))).toBe('ENOTFOUND')
    expect(await codeOf(resolve('unknown.test', never()))).toBe('ENOTFOUND')
    expect(server.asked).toHaveLength(2)
    clock.advance(2_001)
    expect(await codeOf(resolve('unknown.test', never()))).toBe('ENOTFOUND')
    expect(server.asked).toHaveLength(4)
  })
})

// An operator configures a receiver in a zone whose servers do not answer. Look-ups by the system would block the four
// threads of libuv for a minute, so that no other name is resolved and no file is read.
describe('a zone that does not answer', () => {
  const dead = Array.from({ length: 40 }, (_, index) => `h${index}.dead.test`)

  it('delays only look-ups of its names', async () => {
    const resolve = serviceOf()
    const end = new AbortController()
    const waiting = dead.map((name) => codeOf(resolve(name, end.signal)))
    expect(await resolve('hooks.good.test', never())).toEqual(['127.0.0.1'])
    const open = createEgress({ guarded: false, allow: [], resolve })
    const receiver = createServer((_, response) => response.end('ok'))
    await once(receiver.listen(0, '127.0.0.1'), 'listening')
    const { port } = receiver.address() as AddressInfo
    const request = { url: `http://hooks.good.test:${port}/`, headers: {}, body: '{}' }
    expect(await open.post(request)).toMatchObject({ status: 200, body: 'ok' })
    open.close()
    receiver.close()
    // Look-ups without a caller are cancelled, and not cached as failed.
    end.abort()
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(['AbortError']))
    const asked = server.asked.length
    expect(await codeOf(resolve(dead[0]!, AbortSignal.timeout(50)))).toBe('TimeoutError')
    expect(server.asked.length).toBeGreaterThan(asked)
  })

  it('lets a caller cancel without affecting another caller with the same name', async () => {
    const resolve = serviceOf('', '')
    const [one, other] = [new AbortController(), new AbortController()]
    const first = codeOf(resolve('x.dead.test', one.signal))
    const second = codeOf(resolve('x.dead.test', other.signal))
    one.abort()
    expect(await first).toBe('AbortError')
    other.abort(Object.assign(new Error(), { code: 'mine' }))
    expect(await second).toBe('mine')
  })

  it('fails a mail or syslog connection at the deadline', async () => {
    const egress = createEgress({ guarded: true, allow: ['127.0.0.1'], resolve: serviceOf(), deadlineMs: 300 })
    const connection = egress.connect({ host: 'mail.dead.test', port: 1514, tls: false })
    await expect(connection).rejects.toThrow('mail.dead.test did not answer within 0.3 seconds.')
    egress.close()
  })

  it('fails with EAI_AGAIN after the timeout of its servers', { timeout: 20_000 }, async () => {
    expect(await codeOf(serviceOf()('only.dead.test', never()))).toBe('EAI_AGAIN')
  })
})

describe('the files of the system', () => {
  it('are parsed even with invalid or unknown lines', () => {
    expect(parseHosts('garbage\n127.0.0.1\n# 1.2.3.4 x\n1.2.3.4\tA  b # c\r\n')).toEqual(
      new Map([
        ['a', ['1.2.3.4']],
        ['b', ['1.2.3.4']],
      ]),
    )
    expect(parseSearch('')).toEqual({ domains: [], ndots: 1 })
    expect(parseSearch('domain a.test x\nsearch b.test. c.test\noptions rotate ndots:99')).toEqual({
      domains: ['b.test', 'c.test'],
      ndots: 15,
    })
    expect(candidatesOf('a.b', { domains: ['c'], ndots: 1 })).toEqual(['a.b', 'a.b.c'])
    expect(candidatesOf('a', { domains: ['c'], ndots: 1 })).toEqual(['a.c', 'a'])
  })
})
