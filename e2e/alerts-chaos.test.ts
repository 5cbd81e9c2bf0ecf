import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { seededRandom } from './cluster.ts'
import { isExternal, needsOwnProcess, newDataDir, startService, until } from './service.ts'

const alerts = 2_000
const kills = 50
const eventsOfALife = Math.ceil(alerts / kills)
const hour = 3_600_000

interface Taken {
  id: string
  event: string
}

/** Fails 30 % of the requests, lets 10 % hang, and keeps what it took. */
async function startFlakyReceiver(random: () => number) {
  const taken: Taken[] = []
  const counts = { requests: 0, failed: 0, hung: 0 }
  let isHealthy = false
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = await request.toArray().catch(() => [])
    const text = Buffer.concat(chunks).toString()
    if (text === '') return
    const body = JSON.parse(text)
    if (body.type.startsWith('channel.')) return response.end()
    counts.requests += 1
    const luck = isHealthy ? 1 : random()
    if (luck < 0.1) {
      counts.hung += 1
      return
    }
    if (luck < 0.4) {
      counts.failed += 1
      return response.writeHead(500).end('out of luck')
    }
    taken.push({ id: String(request.headers['webhook-id']), event: body.data.id })
    return response.end('ok')
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    taken,
    counts,
    recover: () => {
      isHealthy = true
    },
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

test.skipIf(isExternal)(
  `2,000 alerts reach a receiver that fails 30 % and hangs 10 %, while the service is killed 50 times (needs a process of its own: ${needsOwnProcess})`,
  async () => {
    const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
    console.log(`seed ${seed}`)
    const random = seededRandom(seed)
    const receiver = await startFlakyReceiver(random)
    const shiftFile = join(newDataDir(), 'shift')
    let shift = 0
    const runAhead = (ms: number) => {
      shift += ms
      writeFileSync(shiftFile, String(shift))
    }
    runAhead(0)
    const preload = fileURLToPath(new URL('./shifted-clock.ts', import.meta.url))
    const service = await startService({
      env: {
        ALERT_WEBHOOK_URL: `${receiver.url}/alerts`,
        NODE_OPTIONS: `--import=${preload}`,
        CLOCK_SHIFT_FILE: shiftFile,
      },
    })

    const acknowledged: string[] = []
    const waiting = Array.from({ length: alerts }, (_, number) => ({ key: randomUUID(), number }))
    /** One event; an answer that a kill cut off is asked for again in the next life, under the same key. */
    async function report(): Promise<void> {
      const next = waiting.shift()
      if (!next) return
      const body = {
        severity: 'critical',
        source: 'chaos',
        event_type: 'policy_violation',
        description: `${next.number}`,
      }
      const headers = { 'idempotency-key': next.key }
      const answer = await service.call<{ id: string }>('POST', '/api/events', { body, headers }).catch(() => undefined)
      if (answer?.status === 201) acknowledged.push(answer.body.id)
      else waiting.push(next)
    }

    for (let life = 0; life < kills; life++) {
      const reports = Promise.all(Array.from({ length: eventsOfALife + 2 }, report))
      await pause(100 + random() * 500)
      await service.kill9()
      await reports
      runAhead(2 * hour)
      await service.start()
    }
    while (waiting.length > 0) await report()
    const underFire = receiver.taken.length

    // Whatever is left comes within the schedule; what was given up meanwhile is sent again.
    receiver.recover()
    const channel = async () =>
      (await service.call<{ waiting: number; dead: number; behind: number }>('GET', '/api/alert-channels/env-webhook'))
        .body
    let replayed = 0
    for (;;) {
      await service.kill9()
      runAhead(25 * hour)
      await service.start()
      const { body } = await service.call<{ replayed: number }>('POST', '/api/alert-channels/env-webhook/replay')
      replayed += body.replayed
      const isDone = ({ waiting: messages, dead, behind }: Awaited<ReturnType<typeof channel>>) =>
        messages + dead + behind === 0
      const done = await until('the last alert', channel, isDone, 5_000).catch(() => undefined)
      if (done) break
    }

    const events = new Set(receiver.taken.map(({ event }) => event))
    const lost = acknowledged.filter((id) => !events.has(id))
    const ids = new Map(receiver.taken.map(({ event, id }) => [event, id]))
    const strangers = receiver.taken.filter(({ event, id }) => ids.get(event) !== id)
    const doubles = receiver.taken.length - events.size
    const { requests, failed, hung } = receiver.counts
    console.log(
      `${acknowledged.length} alerts, ${kills} kills, ${requests} requests (${failed} failed, ${hung} hung): ` +
        `${underFire} delivered under fire, ${lost.length} lost, ${doubles} doubles (${((100 * doubles) / alerts).toFixed(1)} %), ` +
        `${strangers.length} of them under another id, ${replayed} replayed`,
    )
    expect(new Set(acknowledged).size).toBe(alerts)
    expect(lost).toEqual([])
    expect(strangers).toEqual([])
    expect(doubles).toBeLessThanOrEqual(alerts * 0.05)
    receiver.close()
    await service.stop()
  },
  300_000,
)
