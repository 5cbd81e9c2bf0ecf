import { expect, test } from 'vitest'
import { sharedSettings, startProcesses, useServers } from '../cluster.ts'
import { newInstance } from '../fleet.ts'
import { type Service, until } from '../service.ts'

let processes: Service[] = []
const servers = useServers({
  async open() {
    // The first process takes the lease before the second one starts.
    const settings = await sharedSettings(servers)
    processes = [...(await startProcesses(settings, 1)), ...(await startProcesses(settings, 1))]
  },
  async close() {
    await Promise.all(processes.map((each) => each.stop()))
  },
})

const put = (service: Service, entries: string[], version: number) =>
  service.call<{ error?: string }>('PUT', '/api/lists/hosts', { body: { entries, version } })

test('a list changed over any process is what the rules use, also after another one takes over', async () => {
  const [first, second] = processes as [Service, Service]
  expect((await put(second, ['corp.example'], 0)).status).toBe(200)
  const { body: rule } = await second.call<{ id: string; error?: string }>('POST', '/api/rules', {
    body: {
      title: 'Other host',
      severity: 'warning',
      detection: {
        call: { event_type: 'tool_call', 'metadata.hosts|exists': true },
        known: { 'metadata.hosts|domain|expand': '%hosts%' },
        condition: 'call and not known',
      },
    },
  })
  expect(rule.error).toBeUndefined()
  const agent = await newInstance(second, 'lists')
  const firedBy = async () => {
    const path = `/api/rules/${rule.id}/firings?limit=200`
    const { firings } = (await second.call<{ firings: { event_id: string }[] }>('GET', path)).body
    return firings.map(({ event_id }) => event_id)
  }
  const report = async (host: string) => {
    const { body } = await second.call<{ id: string }>('POST', '/api/events', {
      body: {
        severity: 'info',
        source: 'test',
        event_type: 'tool_call',
        description: 'A call',
        instance_id: agent,
        metadata: { hosts: [host] },
      },
    })
    return body.id
  }
  const fires = async (host: string) => {
    const id = await report(host)
    // Fires in any case, so that the event before it was judged.
    const next = await report('always.example')
    const fired = await until('the event to be judged', firedBy, (ids) => ids.includes(next))
    return fired.includes(id)
  }
  /** Reports calls to both hosts until those to `host` fire, and those to `silent` no longer do. */
  const becomes = async (host: string, silent: string) => {
    await until(
      `calls to ${host} to fire and calls to ${silent} not to`,
      async () => [await fires(host), await fires(silent)],
      ([loud, quiet]) => loud === true && quiet === false,
    )
  }
  // A rule applies to events after the process that runs it has loaded it.
  const isRun = async () => {
    await report('always.example')
    return firedBy()
  }
  await until('the rule to run', isRun, (ids) => ids.length > 0)
  await becomes('files.example', 'corp.example')
  expect((await put(second, ['files.example'], 1)).status).toBe(200)
  await becomes('corp.example', 'files.example')
  expect((await put(first, ['corp.example'], 2)).status).toBe(200)
  await becomes('files.example', 'corp.example')

  // Two people in two processes: one of them is refused.
  const both = await Promise.all([put(first, ['a.example'], 3), put(second, ['b.example'], 3)])
  expect(both.map(({ status }) => status).toSorted()).toEqual([200, 409])

  await first.stop()
  expect((await put(second, ['files.example'], 4)).status).toBe(200)
  await becomes('corp.example', 'files.example')
})
