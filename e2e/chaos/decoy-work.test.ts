import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { createKey, createKeyDecoy, createPathDecoy, newInstance } from '../fleet.ts'
import { isExternal, type Service, startService } from '../service.ts'

let service: Service
/** Keys without a quota, enough that each has capacity for its requests. */
let agents: string[]
let instanceId: string
let startedAt = 0
beforeAll(async () => {
  service = await startService()
  startedAt = performance.now()
  instanceId = await newInstance(service, 'busy')
  const unlimited = { scope: 'agent', quotas: { checks_per_second: null } } as const
  agents = await Promise.all([1, 2, 3].map(() => createKey(service, { ...unlimited, instances: [instanceId] })))
  await createKeyDecoy(service, instanceId, 'github')
  await createPathDecoy(service, instanceId, '~/.aws/credentials')
  await createPathDecoy(service, instanceId, '/srv/app/secrets/*.pem')
})
afterAll(() => service?.stop())

const deep = `/home/x/${'y/'.repeat(1_900)}`
const words = (unit: (index: number) => string, length: number) => {
  let text = ''
  for (let index = 0; text.length < length; index++) text += unit(index)
  return text
}
/** Texts that once blocked the event loop for seconds, and the most expensive ones of today. */
const attacks: [kind: 'path' | 'key', text: string, meta: Record<string, unknown>][] = [
  ['path', 'cd a;'.repeat(819), { cwd: deep }],
  ['path', 'cd a;'.repeat(819), { cwd: deep, realPath: deep }],
  ['path', words((index) => `../${index} `, 4_000), { cwd: `/home/x/${'y/'.repeat(1_000)}` }],
  ['path', words((index) => `tar c ${index};`, 4_000), { cwd: deep }],
  ['path', words((index) => `${index.toString(36)} `, 4_000), { cwd: '/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q' }],
  ['key', words((index) => `%4${index % 10}"\\u0041${btoa(`%41 ${index}`)}`, 65_000), {}],
  ['key', '+ASt'.repeat(16_000), {}],
]

// One agent key with a few KB per second once delayed every kill by eight seconds.
test('kills go on while 20 of the costliest checks are always in flight', async () => {
  let isOver = false
  const statuses = new Map<number, number>()
  const attack = async (start: number) => {
    for (let round = start; !isOver; round++) {
      const [kind, text, meta] = attacks[round % attacks.length]!
      const check = service.call('POST', `/api/honeypots/check/${kind}`, {
        key: agents[start % agents.length]!,
        body: { [kind]: text, meta: { ...meta, instance_id: instanceId } },
      })
      // A connection whose response takes half a minute is closed, which may happen on a busy machine.
      const { status } = await check.catch(() => ({ status: 0 }))
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }
  const attackers = Array.from({ length: 20 }, (_, number) => attack(number))
  const kills = effort(20, 500)
  const times: number[] = []
  const target = await newInstance(service, 'target')
  for (let round = 0; round < kills; round++) {
    const startedAt = performance.now()
    const { status } = await service.call('POST', `/api/kill/${target}`, { body: { reason: 'under attack' } })
    times.push(performance.now() - startedAt)
    expect(status).toBe(200)
    await service.call('POST', `/api/resume/${target}`)
  }
  isOver = true
  await Promise.all(attackers)
  const sorted = times.toSorted((one, other) => one - other)
  const [p50, p99] = [sorted[Math.floor(kills / 2)]!, sorted[Math.floor(kills * 0.99)]!]
  console.log(
    `kills under costly checks: p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`,
    Object.fromEntries(statuses),
  )
  for (const status of statuses.keys()) expect([200, 429, 503, ...effort([0], [])]).toContain(status)
  // The documented limit is 100 ms on a quiet machine; without turns a kill took 8 seconds.
  expect(p99).toBeLessThan(effort(Infinity, 2_000))
})

/** Sends a check without waiting for the response. */
async function sendOnly(key: string, text: string): Promise<Socket> {
  const body = JSON.stringify({ key: text })
  const socket = connect(service.port, '127.0.0.1').on('error', () => {})
  const lines = ['POST /api/honeypots/check/key HTTP/1.1', 'host: localhost', `x-monitor-key: ${key}`]
  const head = [...lines, 'content-type: application/json', `content-length: ${Buffer.byteLength(body)}`, '', '']
  await new Promise((resolve) => socket.write(head.join('\r\n') + body, resolve))
  return socket
}

// Texts of one key, sent without waiting, once delayed the checks of all others by over a minute.
test.skipIf(isExternal)('checks of others go on while one key sends costly ones', async () => {
  // This test is not about its quota.
  const quotas = { checks_per_second: null }
  const honest = await createKey(service, { scope: 'agent', instances: [instanceId], quotas })
  const flooder = await createKey(service, { scope: 'agent', instances: [await newInstance(service, 'flooder')] })
  const [, costly] = attacks[5]!
  const sockets = await Promise.all(Array.from({ length: 300 }, () => sendOnly(flooder, costly)))
  const times: number[] = []
  for (let round = 0; round < effort(5, 50); round++) {
    const startedAt = performance.now()
    const { status } = await service.call('POST', '/api/honeypots/check/key', {
      key: honest,
      body: { key: words((index) => `line ${index} of a file `, 60_000) },
    })
    times.push(performance.now() - startedAt)
    expect(status).toBe(200)
    // The others are dropped.
    if (round === 2) for (const socket of sockets) socket.destroy()
  }
  console.log(`checks while another key floods: longest ${Math.max(...times).toFixed(0)} ms`)
  expect(Math.max(...times)).toBeLessThan(effort(Infinity, 3_000))
})

test('a check that cost more than it may says so in an event', async () => {
  const { body } = await service.call<{ events: { severity: string; by_service: boolean; instance_id: string }[] }>(
    'GET',
    '/api/events?event_type=decoy_check_exhausted',
  )
  // The key of the previous test may have been reported too.
  const own = body.events.filter((event) => event.instance_id === instanceId)
  expect(own[0]).toMatchObject({ severity: 'warning', by_service: true })
  // Immediately, then once a minute.
  const minutes = Math.ceil((performance.now() - startedAt) / 60_000)
  expect(own.length).toBeLessThanOrEqual((1 + minutes) * agents.length)
})
