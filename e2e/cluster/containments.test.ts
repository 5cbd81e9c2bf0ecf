import { expect, test } from 'vitest'
import { sharedSettings, startProcesses, useServers } from '../cluster.ts'
import { type Service, until } from '../service.ts'

let services: Service[]
const servers = useServers({
  async open() {
    services = await startProcesses({ ...(await sharedSettings(servers)), WARDLINE_LOG_LEVEL: 'warn' }, 2)
  },
  async close() {
    await Promise.all(services?.map((service) => service.stop()) ?? [])
  },
})

interface Containment {
  id: string
  requested: number
  changed: number
  skipped: number
}

const count = 600

test('a fleet stop whose process dies is continued by another one', async () => {
  const [first, second] = services as [Service, Service]
  for (let at = 0; at < count; at += 50) {
    await Promise.all(
      Array.from({ length: 50 }, (_, n) => {
        const id = `fleet-${at + n}`
        return second.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
      }),
    )
  }
  const { body } = await first.call<Containment>('POST', '/api/containments', {
    body: { action: 'suspend', selector: { all: true }, reason: 'leak', confirm: `suspend ${count} agents` },
  })
  await first.kill9()
  const read = async () => (await second.call<Containment>('GET', `/api/containments/${body.id}`)).body
  const found = await until('the rest of the stop', read, ({ changed }) => changed === count)
  expect(found).toMatchObject({ requested: count, skipped: 0 })
  const poll = await second.call<{ suspended: boolean }>('GET', `/api/instances/fleet-${count - 1}/status`)
  expect(poll.body.suspended).toBe(true)
})
