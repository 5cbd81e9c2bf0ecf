import { closeSync, fdatasyncSync, openSync, statfsSync, writeSync } from 'node:fs'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { join } from 'node:path'
import { removeFolder, temporaryFolder } from './cleanup.ts'
import { quantile } from './statistics.ts'

/** Properties of the machine that affect the figures. Latencies in milliseconds of a 4 KiB append with fdatasync. */
export type Machine = {
  cores: number
  processor: string
  platform: string
  node: string
  loadAverage: number
  openFiles: number
  fdatasyncP50Ms: number
  fdatasyncP99Ms: number
  notes: string[]
}

const tmpfsMagic = 0x01021994

/** Measures the disk under the temporary folder and reads the rest from the system. */
export function describeMachine(): Machine {
  const folder = temporaryFolder()
  const file = openSync(join(folder, 'probe'), 'w')
  const block = Buffer.alloc(4096, 1)
  const latencies: number[] = []
  for (let i = 0; i < 300; i++) {
    const startedAt = performance.now()
    writeSync(file, block)
    fdatasyncSync(file)
    latencies.push(performance.now() - startedAt)
  }
  closeSync(file)
  const notes: string[] = []
  if (statfsSync(folder).type === tmpfsMagic) {
    notes.push(
      'The temporary folder is in memory (tmpfs): commits cost nothing here. Set TMPDIR to a folder on a disk.',
    )
  }
  if (loadavg()[0]! > 0.5) notes.push('The machine is not idle: compare ratios, distrust single milliseconds.')
  removeFolder(folder)
  latencies.sort((a, b) => a - b)
  return {
    cores: availableParallelism(),
    processor: cpus()[0]?.model ?? 'unknown',
    platform: `${process.platform} ${process.arch}`,
    node: process.version,
    loadAverage: loadavg()[0]!,
    openFiles: openFileLimit(),
    fdatasyncP50Ms: quantile(latencies, 0.5),
    fdatasyncP99Ms: quantile(latencies, 0.99),
    notes,
  }
}

/** Maximum number of open files of a Node process: at startup Node raises its soft limit to the hard one. */
export function openFileLimit(): number {
  // Otherwise the report would look up the name of every peer.
  Object.assign(process.report, { excludeNetwork: true })
  const report = process.report.getReport() as { userLimits?: { open_files?: { soft?: number | string } } }
  const soft = report.userLimits?.open_files?.soft
  return soft === 'unlimited' ? Number.MAX_SAFE_INTEGER : Number(soft ?? 1024)
}
