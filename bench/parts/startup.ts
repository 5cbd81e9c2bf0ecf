import { setTimeout as sleep } from 'node:timers/promises'
import type { Figure } from '../report.ts'
import { residentKiB, startService } from '../service.ts'
import { median } from '../statistics.ts'

const startCount = 5
const idleMs = 5_000

/** Spawn to the first 200 of /healthz, each time with an empty data folder, and the idle memory of the last one. */
export async function measureStartup(): Promise<Figure[]> {
  const starts: number[] = []
  let idleKiB = Number.NaN
  for (let start = 0; start < startCount; start++) {
    const service = await startService()
    starts.push(service.startupMs / 1000)
    if (start === startCount - 1) {
      await sleep(idleMs)
      idleKiB = residentKiB(service.pid)
    }
    await service.stop()
  }
  const none = { sides: [], notes: [], faults: [] }
  return [
    { ...none, name: 'first start until healthy', value: median(starts), unit: 's', max: 0.7, rounds: starts },
    { ...none, name: `memory ${idleMs / 1000} s after start`, value: idleKiB / 1024, unit: 'MiB', max: 145 },
  ]
}
