import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient, type EventRow } from '@wardline/contract'
import { openDeps, startServer, verifyAudit } from '@wardline/server'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { prepareDemo, readDemoConfig } from '../serve-demo.ts'
import { newPast } from './history.ts'
import { openReceiver, receiverName } from './receiver.ts'

const hourMs = 3_600_000
const dataDir = mkdtempSync(join(tmpdir(), 'wardline-demo-'))
const config = readDemoConfig({ WARDLINE_DATA_DIR: dataDir, PORT: '0', HOST: '127.0.0.1' })
let receiver: Awaited<ReturnType<typeof openReceiver>>
const opened: Awaited<ReturnType<typeof start>>[] = []

async function start() {
  const past = newPast(config, Date.now())
  const server = await startServer(config, {
    ...(past ? { clock: past.clock } : {}),
    beforeListening: (service) => prepareDemo(service, { config, past, receiverUrl: receiver.url }),
  })
  const key = readFileSync(join(dataDir, 'admin-key'), 'utf8').trim()
  return { ...server, hadPast: past !== undefined, ask: createClient({ url: server.url, key }) }
}

/** The demo as it is when its address answers first; no agent of the present runs. */
let demo: Awaited<ReturnType<typeof start>>
let events: EventRow[]

beforeAll(async () => {
  receiver = await openReceiver(0)
  demo = await start()
  opened.push(demo)
  events = []
  for (let before: string | undefined; ; ) {
    const query = { limit: '1000', ...(before === undefined ? {} : { before }) }
    const page = await demo.ask('listEvents', { query })
    events.push(...page.events)
    if (page.next === null) break
    before = page.next
  }
}, 120_000)

afterAll(async () => {
  for (const each of opened) await each.close()
  receiver.close()
  rmSync(dataDir, { recursive: true })
})

const isRecent = ({ created_at }: { created_at: string }) => Date.parse(created_at) > Date.now() - 24 * hourMs

test('events are spread over the last 24 hours, in order of time, and none is in the future', () => {
  const times = events.map(({ created_at }) => Date.parse(created_at))
  expect(times.every((time, index) => index === 0 || time <= times[index - 1]!)).toBe(true)
  expect(times[0]).toBeLessThanOrEqual(Date.now())
  const hours = events.filter(isRecent).map(({ created_at }) => Math.floor(Date.parse(created_at) / hourMs))
  expect(new Set(hours).size).toBeGreaterThanOrEqual(20)
  expect(hours.length).toBeGreaterThan(2_000)
})

test('what agents reported is marked as demo, and no session belongs to two of them', () => {
  const reported = events.filter(({ by_service }) => !by_service)
  expect(reported.filter(({ metadata }) => metadata?.demo !== true)).toEqual([])
  const ofSession = Map.groupBy(reported, ({ session_id }) => session_id)
  expect(ofSession.has(null)).toBe(false)
  for (const rows of ofSession.values()) expect(new Set(rows.map((row) => row.instance_id)).size).toBe(1)
  for (const rows of Map.groupBy(reported.filter(isRecent), (row) => row.instance_id).values()) {
    expect(new Set(rows.map(({ session_id }) => session_id)).size).toBeGreaterThan(1)
  }
})

test('a policy asked about refunds: one was approved and made, one was denied, one waits', async () => {
  const { policies } = await demo.ask('listPolicies', {})
  expect(policies).toMatchObject([{ title: 'Demo: payments', mode: 'enforce', for: { tags: ['team:payments'] } }])
  const { approvals, pending } = await demo.ask('listApprovals', { query: {} })
  expect(pending).toBe(1)
  expect(approvals.map(({ state, tool, policy_id }) => [state, tool, policy_id])).toEqual(
    ['pending', 'denied', 'granted'].map((state) => [state, 'refund', policies[0]!.id]),
  )
  // Who looks at the demo has the admin key.
  expect(approvals[0]).toMatchObject({ may_decide: true })
  expect(Date.parse(approvals[0]!.expires_at)).toBeGreaterThan(Date.now() + 10 * hourMs)
})

test('the agents have the tags of operators, and sent all their heartbeats', async () => {
  const { instances } = await demo.ask('listInstances', { query: { include: 'history' } })
  expect(instances).toHaveLength(20)
  for (const { id, operator_tags, history } of instances) {
    expect(operator_tags).toEqual(['demo', expect.stringMatching(/^team:/)])
    const beats = history!.heartbeats.slice(0, -2)
    expect(Math.max(...beats), id).toBe(60)
    expect(
      beats.reduce((sum, count) => sum + count, 0),
      id,
    ).toBeGreaterThan(8 * 120)
  }
  expect(instances.filter(({ status }) => status !== 'active')).toEqual([])
})

test('the starter rules are in mode observe, and several have fired', async () => {
  const { rules, runner } = await demo.ask('listRules', {})
  expect(rules.every(({ mode }) => mode === 'observe')).toBe(true)
  const fired = rules.filter(({ firings_24h }) => firings_24h > 0).map(({ title }) => title)
  expect(fired).toEqual(
    expect.arrayContaining([
      'Secret read, then a request to the outside',
      'First use of a tool',
      'First use of a host',
      'Runaway loop',
      'Repeated policy violations',
      'Far above the usual of the agent',
    ]),
  )
  expect(runner.lag_events).toBe(0)
})

test('an incident was resolved: a decoy touched, the agent suspended, alerts resolved, the agent resumed', async () => {
  const [breach, ...others] = events.filter(({ severity }) => severity === 'breach')
  expect(others).toEqual([])
  const instanceId = breach!.instance_id!
  const { suspensions } = await demo.ask('listSuspensions', { params: { instanceId } })
  expect(suspensions).toHaveLength(1)
  const [suspension] = suspensions
  expect(Date.parse(suspension!.requested_at)).toBeGreaterThan(Date.parse(breach!.created_at))
  expect(suspension).toMatchObject({
    delivered_by: 'poll',
    acknowledged_by: 'ack',
    silent_at: expect.any(String),
    breaches: 0,
  })
  expect(suspension!.resumed_at).not.toBeNull()
  const { control, status } = await demo.ask('getInstance', { params: { instanceId } })
  expect({ status, control }).toMatchObject({ status: 'active', control: { version: 2, confirmed: true } })
  const alert = await demo.ask('getAlert', { params: { id: breach!.id } })
  expect(alert).toMatchObject({ status: 'resolved', verdict: 'true_positive' })
  expect(alert.comments.at(-1)?.text).toMatch(/rotated/)
  expect(alert.history.map(({ after }) => after.status)).toEqual(['resolved', 'acknowledged'])
})

test('alerts reached the receiver of the demo, and some are open', async () => {
  const { channels } = await demo.ask('listChannels', {})
  expect(channels).toMatchObject([{ name: receiverName, state: 'ok', waiting: 0, dead: 0, behind: 0 }])
  expect(channels[0]!.last_delivered_at).not.toBeNull()
  const { alerts } = await demo.ask('listAlerts', { query: { limit: '1000' } })
  expect(alerts.filter(({ status }) => status === 'open').length).toBeGreaterThan(0)
  expect(alerts.length).toBeLessThan(200)
})

test('the audit log verifies, in order of time, and a second start brings no second past', async () => {
  await demo.close()
  const again = await start()
  opened.splice(0, 1, again)
  expect(again.hadPast).toBe(false)
  const { channels } = await again.ask('listChannels', {})
  expect(channels).toHaveLength(1)
  const { entries } = await again.ask('listAudit', { query: { limit: '1000' } })
  const times = entries.toSorted((one, other) => one.seq - other.seq).map(({ at }) => Date.parse(at))
  expect(times).toEqual(times.toSorted((one, other) => one - other))
  const deps = await openDeps(config)
  try {
    expect(await verifyAudit(deps.database)).toMatchObject({ ok: true })
  } finally {
    await deps.close()
  }
}, 30_000)
