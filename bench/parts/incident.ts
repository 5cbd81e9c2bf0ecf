import { createWriteStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { verifyIncident } from '../../packages/server/src/features/incidents/verify.ts'
import { instanceId } from '../events.ts'
import { fillEvents } from '../fill-events.ts'
import type { Figure } from '../report.ts'
import { residentKiB, startService } from '../service.ts'

const eventCount = 1_000_000
const dayMs = 86_400_000
const lookEveryMs = 100
const mib = 1024 * 1024

/** A bundle of a million events of one agent: size, duration, and memory of the service. */
export async function measureIncident(): Promise<Figure[]> {
  const faults: string[] = []
  const empty = await startService()
  await empty.stop(false)
  const instance_id = instanceId(0)
  fillEvents(empty.dataDir, eventCount, instance_id)
  const service = await startService(empty.dataDir)
  await service.call('POST', '/api/heartbeat', [200], { instance_id, name: 'Bench agent' })
  const now = Date.now()
  const range = { instance_id, from: new Date(now - 2 * dayMs).toISOString(), to: new Date(now + dayMs).toISOString() }
  const file = join(service.dataDir, 'bundle.tar.gz')
  const before = residentKiB(service.pid)
  let highest = before
  const watch = setInterval(() => {
    highest = Math.max(highest, residentKiB(service.pid))
  }, lookEveryMs)
  const startedAt = performance.now()
  const answer = await fetch(`http://127.0.0.1:${service.port}/api/incidents/export?${new URLSearchParams(range)}`, {
    headers: { 'X-Monitor-Key': service.key },
  })
  if (answer.status !== 200 || !answer.body) faults.push(`the export is answered with ${answer.status}`)
  else await pipeline(Readable.fromWeb(answer.body as never), createWriteStream(file))
  const exportSeconds = (performance.now() - startedAt) / 1_000
  clearInterval(watch)
  const { size } = await stat(file)
  const verifiedFrom = performance.now()
  const verdict = await verifyIncident(file)
  const verifySeconds = (performance.now() - verifiedFrom) / 1_000
  if (!verdict.ok) faults.push(`the bundle is refused: ${verdict.detail}`)
  else if (verdict.rows.events !== eventCount) faults.push(`the bundle has ${verdict.rows.events} events`)
  await service.stop()
  const shared = { sides: [], notes: [], faults }
  return [
    { ...shared, name: 'bundle of 1,000,000 events', value: size / mib, unit: 'MiB' },
    { ...shared, name: 'exported', value: exportSeconds, unit: 's', max: 90 },
    { ...shared, name: 'memory of the service above before', value: (highest - before) / 1024, unit: 'MiB', max: 256 },
    { ...shared, name: 'verified', value: verifySeconds, unit: 's', max: 30 },
  ]
}
