import { expect } from 'vitest'
import { balance } from './balanced.ts'
import { readMetric } from './cluster.ts'
import { judge, startFlakyReceiver } from './flaky-receiver.ts'
import { allEvents, anEvent, unique } from './fleet.ts'
import { type Service, until } from './service.ts'
import type { Created } from './shapes.ts'

/** Alerts of a claim that was lost with its server are sent again when its lease is over. */
const arriveWithinMs = 300_000

/** Agents that report pairs all the time. */
const reporters = 8

const rule = {
  title: 'Two watched events',
  severity: 'warning',
  mode: 'alert',
  detection: { watched: { event_type: 'watched' }, condition: 'watched' },
  correlation: { type: 'event_count', 'group-by': ['instance_id'], timespan: '1h', condition: { gte: 2 } },
  tests: { match: [[{ event_type: 'watched' }, { event_type: 'watched' }]], no_match: [[{ event_type: 'watched' }]] },
}

/** A receiver of alerts that takes each. Its address is in the settings of the processes. */
export async function startWatchReceiver() {
  const receiver = await startFlakyReceiver(() => 1)
  receiver.recover()
  return receiver
}

/** Agents that report two events each, at any moments. A rule has to fire once for each, and every alert to arrive. */
export async function startWatchedPairs(services: Service[], receiver: Awaited<ReturnType<typeof startWatchReceiver>>) {
  const client = balance(services, { isRefused: ({ status }) => status >= 500 })
  const critical: string[] = []
  const agents: string[] = []
  const report = async (agent: string) => {
    const body = anEvent({ event_type: 'watched', severity: 'critical', instance_id: agent })
    const headers = { 'idempotency-key': body.description }
    const answer = await client.call<Created>('POST', '/api/events', { body, headers })
    expect(answer.status, answer.text).toBe(201)
    critical.push(answer.body.id)
  }
  const created = await client.call('POST', '/api/rules', { body: rule })
  expect(created.status, created.text).toBe(201)
  const fired = async () =>
    (await allEvents({ ...services[0]!, call: client.call })).filter(({ event_type }) => event_type === 'rule_matched')
  // A rule applies to events after the process that runs the rules has loaded it.
  const probe = unique('probe')
  await until(
    'the rule to run',
    async () => {
      await report(probe)
      return fired()
    },
    (rows) => rows.length > 0,
  )
  agents.push(probe)

  /** New agents that have reported their first event. */
  async function begin(count: number): Promise<string[]> {
    const begun = Array.from({ length: count }, () => unique('watched'))
    await Promise.all(begun.map(report))
    return begun
  }
  /** Reports the second event of each. */
  async function complete(begun: string[]): Promise<void> {
    await Promise.all(begun.map(report))
    agents.push(...begun)
  }
  let stopped = false
  /** So that a fault finds firings and alerts on their way. */
  const always = Promise.all(
    Array.from({ length: reporters }, async () => {
      while (!stopped) await complete(await begin(1))
    }),
  )

  return {
    begin,
    complete,
    /** Resolves with what was checked, in words. */
    async end(): Promise<string> {
      stopped = true
      await always
      const left = async () => agents.length - (await fired()).length
      await until('the rule to fire for each pair', left, (count) => count <= 0)
      const alerts = [...critical, ...(await fired()).map(({ id }) => id)]
      const judged = () => judge(alerts, receiver.taken)
      const missing = () => judged().lost.length
      await until('every alert to arrive', missing, (count) => count === 0, arriveWithinMs)
      for (const service of services) {
        const lag = () => readMetric(service, 'wardline_rules_lag_events')
        await until('the rules to be at the head', lag, (events) => events === 0)
      }
      // Read again: no second firing can follow any more.
      expect((await fired()).map(({ instance_id }) => instance_id).sort()).toEqual(agents.sort())
      const { strangers, doubles } = judged()
      expect(strangers, 'the same alert with another id').toEqual([])
      receiver.close()
      return `${agents.length} pairs, one firing each; ${alerts.length} alerts arrived, ${doubles} of all twice`
    },
  }
}
