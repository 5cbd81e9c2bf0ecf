import { expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { readMetric, sharedSettings, startProcesses, useServers } from '../cluster.ts'
import { allEvents, newInstance } from '../fleet.ts'
import { patienceMs, type Service, until } from '../service.ts'
import { startTcpProxy, type TcpProxy } from '../tcp-proxy.ts'

/** Ordinary runs share the machine and only check that the state is reached. */
const takenOverWithinMs = effort(patienceMs, 10_000)

let database: TcpProxy
/** A process behind a proxy that can drop its connections to the database. */
let first: Service
let second: Service
const servers = useServers({
  async open() {
    const settings = {
      ...(await sharedSettings(servers)),
      WARDLINE_AUTO_SUSPEND_PER_MINUTE: '10000',
      WARDLINE_AUTO_SUSPEND_FLEET_PERCENT: '100',
    }
    database = await startTcpProxy(settings.DATABASE_URL)
    // The first process takes the lease before the second one starts.
    ;[first] = (await startProcesses({ ...settings, DATABASE_URL: database.through(settings.DATABASE_URL) }, 1)) as [
      Service,
    ]
    ;[second] = (await startProcesses(settings, 1)) as [Service]
  },
  async close() {
    await Promise.all([first?.stop(), second?.stop()]).finally(() => database?.close())
  },
})

const agents = 5

interface Firing {
  seq: number
  instance_id: string
}

/** Each agent makes two calls; the second one suspends it. */
async function expectSuspended(reporting: Service, prefix: string): Promise<string[]> {
  const ids = await Promise.all(Array.from({ length: agents }, () => newInstance(reporting, prefix)))
  for (const instance_id of [...ids, ...ids]) {
    const body = { severity: 'info', source: 'test', event_type: 'tool_call', description: 'A call', instance_id }
    expect((await reporting.call('POST', '/api/events', { body })).status).toBe(201)
  }
  await until(
    'every agent to be suspended',
    () => Promise.all(ids.map((id) => reporting.call<{ status: string }>('GET', `/api/instances/${id}`))),
    (answers) => answers.every(({ body }) => body.status === 'suspended'),
    takenOverWithinMs,
  )
  return ids
}

test('rules go on in another process when the first loses its database or freezes, and nothing is done twice', async () => {
  const { body } = await first.call<{ id: string }>('POST', '/api/rules', {
    body: {
      title: 'Two calls',
      severity: 'warning',
      mode: 'enforce',
      detection: { call: { event_type: 'tool_call' }, condition: 'call' },
      correlation: { type: 'event_count', 'group-by': ['instance_id'], timespan: '1h', condition: { gte: 2 } },
      response: [{ action: 'suspend' }],
      tests: {
        match: [[{ event_type: 'tool_call' }, { event_type: 'tool_call' }]],
        no_match: [[{ event_type: 'tool_call' }]],
      },
    },
  })
  // A rule applies to events after the runner has loaded it.
  const begun = await newInstance(second, 'begun')
  await until(
    'the rule to run',
    async () => {
      await second.call('POST', '/api/events', {
        body: { severity: 'info', source: 'test', event_type: 'tool_call', description: 'A call', instance_id: begun },
      })
      return (await second.call<{ status: string }>('GET', `/api/instances/${begun}`)).body.status
    },
    (status) => status === 'suspended',
  )
  const suspended = [begun, ...(await expectSuspended(second, 'both'))]

  database.swallow()
  suspended.push(...(await expectSuspended(second, 'alone')))
  database.heal()
  await until(
    'the first process to be ready',
    () => first.call('GET', '/readyz'),
    ({ status }) => status === 200,
  )
  suspended.push(...(await expectSuspended(first, 'healed')))

  process.kill(second.pid()!, 'SIGSTOP')
  try {
    suspended.push(...(await expectSuspended(first, 'frozen')))
  } finally {
    process.kill(second.pid()!, 'SIGCONT')
  }
  suspended.push(...(await expectSuspended(second, 'woken')))

  for (const id of suspended) {
    const { body } = await first.call<{ suspensions: object[] }>('GET', `/api/instances/${id}/suspensions`)
    expect(body.suspensions, id).toHaveLength(1)
  }
  const { firings } = (await first.call<{ firings: Firing[] }>('GET', `/api/rules/${body.id}/firings?limit=200`)).body
  expect(firings.map(({ instance_id }) => instance_id).sort()).toEqual(suspended.sort())
  const matched = (await allEvents(first)).filter(({ event_type }) => event_type === 'rule_matched')
  expect(matched).toHaveLength(firings.length)
  for (const service of [first, second]) {
    await until(
      'the rules to be at the head',
      () => readMetric(service, 'wardline_rules_lag_events'),
      (lag) => lag === 0,
    )
  }
})
