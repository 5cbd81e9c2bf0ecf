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

/** Terminates the child when the benchmark ends, even by an error. */
export function killAtExit(child: ChildProcess): void {
  children.add(child)
  child.on('exit', () => children.delete(child))
}

/** Creates a folder in the system's temporary folder (TMPDIR selects another disk) and removes it when the run ends. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-bench-'))
  folders.add(folder)
  return folder
}

/** Removes a folder before the run ends, because a filled database takes hundreds of megabytes. */
export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  folders.delete(folder)
}
