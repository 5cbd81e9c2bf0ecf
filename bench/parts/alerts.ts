import { type AddressInfo, createServer } from 'node:net'
import { eventBody } from '../events.ts'
import type { Figure } from '../report.ts'
import { pairedLoads, ratios, sideOf } from '../rounds.ts'
import { type Service, startService } from '../service.ts'
import { median } from '../statistics.ts'

const eventBytes = 322
const roundCount = 8
const seconds = 2
const connectionCounts = [8, 64]
const maxRatio = 1.2

/** Accepts connections and never responds: the worst failure, because every attempt waits for its timeout. */
function startDeadReceiver(): Promise<{ url: string; stop: () => void }> {
  const server = createServer((socket) => socket.on('error', () => {}).resume())
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      resolve({ url: `http://127.0.0.1:${port}/alerts`, stop: () => server.close() })
    })
  })
}

/** Events that are alerts for a webhook with a dead receiver, compared with a service without alerts. */
export async function measureAlerts(): Promise<Figure[]> {
  const receiver = await startDeadReceiver()
  const alerting = await startService(undefined, { ALERT_WEBHOOK_URL: receiver.url })
  const silent = await startService()
  const bodies = Array.from({ length: 64 }, (_, n) => eventBody(n, eventBytes))
  const figures: Figure[] = []
  for (const connections of connectionCounts) {
    const task = (service: Service, name: string) => ({
      name,
      port: service.port,
      connections,
      requests: bodies.map((body) => service.prepare('POST', '/api/events', body)),
      seconds,
      expect: [201],
    })
    const pairs = await pairedLoads(roundCount, task(alerting, 'alerts on'), task(silent, 'alerts off'))
    const rounds = ratios(pairs, (result) => result.p99Ms)
    figures.push({
      name: `p99, ${connections} connections`,
      value: median(rounds),
      unit: '× without alerts',
      max: maxRatio,
      sides: [sideOf('every event an alert, receiver dead', pairs.a), sideOf('no channel', pairs.b)],
      rounds,
      notes: [],
      faults: pairs.faults,
    })
  }
  const { text } = await alerting.call('GET', '/api/alert-channels/env-webhook', [200])
  const { waiting, behind } = JSON.parse(text) as { waiting: number; behind: number }
  if (waiting + behind === 0) figures[0]!.faults.push('no alert waits for the dead receiver')
  figures[0]!.notes.push(`${waiting} messages and ${behind} alerts wait for the dead receiver`)
  await alerting.stop()
  await silent.stop()
  receiver.stop()
  return figures
}
