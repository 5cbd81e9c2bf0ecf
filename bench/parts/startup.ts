import { setTimeout as sleep } from 'node:timers/promises'
import type { Figure } from '../report.ts'
import { residentKiB, startService } from '../service.ts'
import { median } from '../statistics.ts'

const STARTS = 5
const IDLE_MS = 5_000

/** Spawn to the first 200 of /healthz, each time with an empty data folder, and the memory of the last one when idle. */
export async function measureStartup(): Promise<Figure[]> {
  const starts: number[] = []
  let idleKiB = Number.NaN
  for (let start = 0; start < STARTS; start++) {
    const service = await startService()
    starts.push(service.startupMs / 1000)
    if (start === STARTS - 1) {
      await sleep(IDLE_MS)
      idleKiB = residentKiB(service.pid)
    }
    await service.stop()
  }
  const none = { sides: [], notes: [], faults: [] }
  return [
    { ...none, name: 'first start until healthy', value: median(starts), unit: 's', atMost: 0.7, rounds: starts },
    { ...none, name: `memory ${IDLE_MS / 1000} s after start`, value: idleKiB / 1024, unit: 'MiB', atMost: 145 },
  ]
}
