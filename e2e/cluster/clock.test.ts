import { writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { readMetric, sharedSettings, startProcesses, useServers } from '../cluster.ts'
import { beat, newInstance } from '../fleet.ts'
import { newDataDir, type Service, until } from '../service.ts'

const servers = useServers()

const aheadMs = 120_000
/** Milliseconds after which an attempt without a response must have timed out and been retried. */
const retriedAfterMs = 15_000

/** Starts a receiver that accepts alerts but does not respond before `answer` is called. */
async function startSlowReceiver() {
  const taken: { id: string; at: number }[] = []
  const waiting: ServerResponse[] = []
  const server = createServer((request, response) => {
    taken.push({ id: String(request.headers['webhook-id']), at: performance.now() })
    waiting.push(response)
    request.resume()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/alerts`,
    taken,
    answer: () => {
      for (const response of waiting.splice(0)) response.end()
    },
    close: () => server.close(),
  }
}

const runs = (service: Service, job: string) =>
  readMetric(service, `wardline_job_runs_total{name="${job}",result="ok"}`)

async function afterRuns(service: Service, job: string, count: number): Promise<void> {
  const before = await runs(service, job)
  await until(
    `${count} runs of ${job}`,
    () => runs(service, job),
    (now) => now >= before + count,
  )
}

// Two minutes exceed every lease, and the limits for confirming a kill and for the next heartbeat.
test('a process two minutes ahead takes over no message, and calls no kill unconfirmed and no agent offline', async () => {
  const receiver = await startSlowReceiver()
  const settings = { ...(await sharedSettings(servers)), ALERT_WEBHOOK_URL: receiver.url }
  const shiftFile = join(newDataDir(), 'shift')
  writeFileSync(shiftFile, String(aheadMs))
  const preload = fileURLToPath(new URL('../shifted-clock.js', import.meta.url))
  const ahead = { ...settings, NODE_OPTIONS: `--import=${preload}`, CLOCK_SHIFT_FILE: shiftFile }
  const [right] = (await startProcesses(settings, 1)) as [Service]
  const [wrong] = (await startProcesses(ahead, 1)) as [Service]
  const [id, other] = [await newInstance(right), await newInstance(right)]
  expect((await right.call('POST', `/api/kill/${id}`, { body: { reason: 'now' } })).status).toBe(200)
  await until(
    'the alert of the kill',
    () => receiver.taken.length,
    (count) => count > 0,
  )
  await afterRuns(wrong, 'alerts', 3)
  await afterRuns(wrong, 'suspension-watch', 3)

  const firsts = new Map(receiver.taken.toReversed().map(({ id, at }) => [id, at]))
  const tooSoon = receiver.taken.filter(({ id, at }) => at > firsts.get(id)! && at < firsts.get(id)! + retriedAfterMs)
  expect(tooSoon, 'each message is sent once').toEqual([])
  const { body } = await wrong.call<{ alerts: { event_type: string }[] }>('GET', '/api/alerts')
  expect(body.alerts.map(({ event_type }) => event_type)).toEqual(['instance_suspended'])
  await beat(right, other)
  const fleet = await wrong.call<{ instances: { id: string; status: string }[] }>('GET', '/api/status')
  expect(fleet.body.instances.find((instance) => instance.id === other)?.status).toBe('active')

  const ready = await wrong.call<{ clock_offset_ms: number }>('GET', '/readyz')
  expect(Math.abs(ready.body.clock_offset_ms + aheadMs)).toBeLessThan(30_000)
  expect(await readMetric(wrong, 'wardline_clock_offset_seconds')).toBeLessThan(-100)
  expect(wrong.logs()).toContain('the clock of this machine differs from that of the database')
  expect(right.logs()).not.toContain('the clock of this machine differs')
  receiver.answer()
  await Promise.all([right, wrong].map((service) => service.stop()))
  receiver.close()
})
