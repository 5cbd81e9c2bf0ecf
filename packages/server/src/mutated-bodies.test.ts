import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type Endpoint, endpoints } from '@wardline/contract'
import { expect, test } from 'vitest'
import { effort } from '../../../test-servers/effort.ts'
import { mutator } from '../../../test-servers/mutated-bodies.ts'
import { seededDraws } from '../../../test-servers/seeded-draws.ts'
import { type Method, openTestService, type TestService } from './testing/service.ts'

const engine = process.env.TEST_ENGINE ?? 'sqlite'
/** With those over sockets, a million at night. PGlite is slow and only shares PostgreSQL's dialect. */
const bodies = {
  sqlite: effort(8_000, 450_000),
  postgres: effort(3_000, 450_000),
  pglite: effort(300, 20_000),
}[engine]!
const atATime = 50
/** Limit for lists, because an endless list would be a separate defect. */
const maxPages = effort(1_000, 100_000)
const maxGrowthBytes = 100 * 1024 * 1024
const runMs = effort(600_000, 3_600_000)

const event = {
  severity: 'critical',
  source: 'fuzz',
  event_type: 'tool_call',
  description: 'A call',
  instance_id: 'agent-1',
  session_id: 's-1',
  ip_address: '192.0.2.7',
  metadata: { toolName: 'shell-exec', list: [1, { deep: ['x'] }], blocked: true },
}
const metrics = { ...event, event_type: 'session_metrics', description: '{"tool_calls_per_5min":4,"x":1.5}' }
const match = { severities: ['breach'], types: ['honeypot_*'], instances: ['agent-*'] }

/** Valid bodies, each with its route's share of the attempts: created rows stay and slow down the rest. */
const targets: [share: number, method: Method, path: string, valid: unknown][] = [
  [20, 'POST', '/api/events', event],
  [10, 'POST', '/api/events', metrics],
  [10, 'POST', '/api/events/batch', [event, metrics, event]],
  [
    10,
    'POST',
    '/api/heartbeat',
    { instance_id: 'agent-1', name: 'Agent', agent_type: 'x', version: '1', control_version: 0 },
  ],
  [15, 'POST', '/api/honeypots/check/key', { key: 'Authorization: Bearer AKIAQ234567ABCDEFGHI', meta: { tool: 'x' } }],
  [
    15,
    'POST',
    '/api/honeypots/check/path',
    { path: 'cd ~ && cat .aws/cred*', meta: { cwd: '/home/x', realPath: '/x', tool: 'x' } },
  ],
  [3, 'POST', '/api/kill/agent-1', { reason: 'because' }],
  [3, 'POST', '/api/resume/agent-1', {}],
  [
    3,
    'POST',
    '/api/containments',
    { action: 'suspend', selector: { instances: ['agent-1'] }, reason: 'because', confirm: 'suspend 1 agent' },
  ],
  [
    1,
    'POST',
    '/api/containments',
    { action: 'resume', selector: { all: true }, reason: 'x', confirm: 'resume 1 agents' },
  ],
  [1, 'POST', '/api/containments', { action: 'suspend', selector: { tags: ['a:b'] }, reason: 'x', dry_run: true }],
  [3, 'POST', '/api/instances/agent-1/ack', { version: 1 }],
  [2, 'POST', '/api/honeypots', { instanceId: 'agent-1', type: 'file_path', path: '~/.aws/cred*', label: 'x' }],
  [1, 'POST', '/api/honeypots', { instanceId: 'agent-1', type: 'api_key', keyType: 'github' }],
  [1, 'POST', '/api/keys', { scope: 'agent', name: 'x', instances: ['agent-*'], expires_at: '2027-01-01T00:00:00Z' }],
  [1, 'POST', '/api/session', { key: 'wl_agent_x' }],
  [2, 'POST', '/api/silences', { match, reason: 'quiet', ends_at: '2026-01-16T00:00:00Z' }],
  [1, 'POST', '/api/alert-routes', { name: 'x', match, channels: ['environment-slack'] }],
  [1, 'POST', '/api/alert-channels', { name: 'x', type: 'webhook', settings: { url: 'https://192.0.2.1/x' } }],
]

const collectGarbage: () => void = (() => {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc')
})()
function heapBytes(): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}

/** Reads every list with all its pages, and every view by the ids in the lists. */
async function readEverything({ call }: TestService): Promise<number> {
  let answers = 0
  const read = async (path: string) => {
    const { status, body, text } = await call<Record<string, unknown>>('GET', path)
    expect(status, `${path}: ${text.slice(0, 200)}`).toBe(200)
    answers++
    return body
  }
  const lists = Object.values(endpoints as Record<string, Endpoint>).filter(
    ({ method, path, reply, query }) =>
      method === 'GET' &&
      reply !== undefined &&
      !path.includes(':') &&
      !(query as { required?: string[] })?.required?.length,
  )
  for (const { path, query } of lists) {
    const cursor = query && 'after' in (query as { properties: object }).properties ? 'after' : 'before'
    let next: unknown
    let pages = 0
    do {
      expect(++pages, path).toBeLessThan(maxPages)
      const body = await read(next === undefined ? path : `${path}?${cursor}=${next}`)
      next = body?.next ?? undefined
      const rows = Object.values(body ?? {}).find(Array.isArray) as { id?: string }[] | undefined
      const view = Object.values(endpoints as Record<string, Endpoint>).find(
        (one) => one.method === 'GET' && one.reply !== undefined && new RegExp(`^${path}/:\\w+$`).test(one.path),
      )
      for (const row of view ? (rows ?? []).slice(0, 20) : []) await read(`${path}/${row.id}`)
    } while (next !== undefined)
  }
  return answers
}

// A key holder chooses the bytes. None may crash the service, fill its memory, or break a later read.
test(
  'no mutated body causes an internal error, and all stored data can be read',
  async () => {
    const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
    const draw = seededDraws(seed)
    const mutated = mutator(draw)
    const table = targets.flatMap((target) => Array.from({ length: target[0] }, () => target))
    const unhandled: unknown[] = []
    const note = (fault: unknown) => void unhandled.push(fault)
    process.on('unhandledRejection', note)
    await using service = await openTestService()
    const tally = new Map<number, number>()
    const send = async () => {
      const [, method, path, valid] = table[Math.floor(draw() * table.length)]!
      const body = mutated(valid)
      let answer = await service.call(method, path, { body })
      // A timeout may not be caused by the body. A body that the server cannot handle fails again.
      for (let retries = 0; answer.headers['x-error-code'] === 'database' && retries < 5; retries++) {
        answer = await service.call(method, path, { body })
      }
      const { status, text } = answer
      tally.set(status, (tally.get(status) ?? 0) + 1)
      if (status >= 500)
        expect.fail(`seed ${seed}: ${path} answered ${status} ${text} to ${body.toString('latin1').slice(0, 500)}`)
    }
    let before = 0
    for (let sent = 0; sent < bodies; sent += atATime) {
      // Excludes the memory that the first rounds load and compile.
      if (sent >= bodies / 10 && before === 0) before = heapBytes()
      await Promise.all(Array.from({ length: atATime }, send))
    }
    await service.services.ingest.whenIdle()
    const growth = heapBytes() - before
    const answers = await readEverything(service)
    process.off('unhandledRejection', note)
    const shown = JSON.stringify(Object.fromEntries(tally))
    console.log(
      `seed ${seed}: ${bodies} bodies on ${engine}: ${shown}; heap ${(growth / 2 ** 20).toFixed(0)} MiB; ${answers} reads`,
    )
    expect(unhandled).toEqual([])
    expect(growth).toBeLessThan(maxGrowthBytes)
    const faults = service.logged.filter((line) => /"level":(?:50|60)/.test(line))
    // Bodies that succeeded when sent again failed because of the server, not the body.
    expect(faults.filter((line) => !line.includes('the database failed'))).toEqual([])
  },
  runMs,
)
