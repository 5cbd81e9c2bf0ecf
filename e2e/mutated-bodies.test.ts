import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { effort } from '../test-servers/effort.ts'
import { mutator } from '../test-servers/mutated-bodies.ts'
import { seededDraws } from '../test-servers/seeded-draws.ts'
import { anEvent, newInstance } from './fleet.ts'
import { keyedRoutes, type Route } from './routes.ts'
import { startService } from './service.ts'

const bodies = effort(2_000, 100_000)
const maxGrowthKib = 100 * 1024
const residentKib = (pid: number) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1])

// Like the unit test, but over sockets, so that HTTP parsing is included.
test('no mutated body crashes the process or gets 5xx', async () => {
  // A separate process, so that its memory can be measured.
  const service = await startService({ env: {} })
  try {
    const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
    const draw = seededDraws(seed)
    const mutated = mutator(draw)
    const id = await newInstance(service)
    const targets: [path: string, valid: unknown][] = [
      ['/api/events', anEvent({ instance_id: id, metadata: { toolName: 'x', list: [1, { a: 'b' }] } })],
      ['/api/events/batch', [anEvent({ instance_id: id }), anEvent({ severity: 'breach' })]],
      ['/api/heartbeat', { instance_id: id, name: 'x', version: '1' }],
      ['/api/honeypots/check/key', { key: 'Bearer sk-proj-x', meta: { tool: 'x' } }],
      ['/api/honeypots/check/path', { path: 'cd ~; cat .aws/c*', meta: { cwd: '/home/x' } }],
      [`/api/kill/${id}`, { reason: 'x' }],
      [`/api/resume/${id}`, {}],
    ]
    const pid = service.pid()!
    const tally = new Map<number, number>()
    const send = async () => {
      const [path, valid] = targets[Math.floor(draw() * targets.length)]!
      const raw = mutated(valid)
      const { status, text } = await service.call('POST', path, { raw, chunked: draw() < 0.2 })
      tally.set(status, (tally.get(status) ?? 0) + 1)
      if (status >= 500)
        expect.fail(`seed ${seed}: ${path} answered ${status} ${text} to ${raw.toString('latin1').slice(0, 500)}`)
    }
    let before = 0
    for (let sent = 0; sent < bodies; sent += 20) {
      if (sent >= bodies / 5 && before === 0) before = residentKib(pid)
      await Promise.all(Array.from({ length: 20 }, send))
    }
    const growth = residentKib(pid) - before
    console.log(
      `seed ${seed}: ${bodies} bodies: ${JSON.stringify(Object.fromEntries(tally))}; ${growth} KiB more memory`,
    )
    expect(service.pid()).toBe(pid)
    expect(growth).toBeLessThan(maxGrowthKib)
    const isPlain = ({ method, path, query }: Route) => method === 'GET' && !path.includes(':') && !query
    for (const { path } of keyedRoutes.filter(isPlain)) {
      expect((await service.call('GET', path)).status, path).toBe(200)
    }
    expect(service.logs()).not.toMatch(/unhandled|"level":(?:50|60)/)
  } finally {
    await service.stop()
  }
})
