import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const children = new Set<ChildProcess>()
const folders = new Set<string>()

process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => process.exit(130))

/** No child outlives the benchmark, however it ends. */
export function killAtExit(child: ChildProcess): void {
  children.add(child)
  child.on('exit', () => children.delete(child))
}

/** A new empty folder under the system's temporary folder (TMPDIR chooses another disk), gone when the run ends. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-bench-'))
  folders.add(folder)
  return folder
}

/** Frees the disk before the run ends: a filled database takes hundreds of megabytes. */
export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  folders.delete(folder)
}
