import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, vi } from 'vitest'
import { runCommand } from '../run.ts'

/** Gives each test of a file a folder, and what commands print in this process. */
export function useCapturedOutput(): {
  output: string[]
  errors: string[]
  /** The folder of the test. */
  folder(): string
  /** Writes a file, and returns its path. */
  write(name: string, text: string): string
  /** Runs `wardline` with these words, and returns its exit code. */
  run(...words: string[]): Promise<number>
} {
  let folder = ''
  const output: string[] = []
  const errors: string[] = []
  const listeners = process.stdout.listeners('error')
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'wardline-cli-'))
    output.length = 0
    errors.length = 0
    vi.spyOn(console, 'log').mockImplementation((line) => void output.push(line))
    vi.spyOn(console, 'error').mockImplementation((line) => void errors.push(line))
    vi.spyOn(process.stdout, 'write').mockImplementation((text) => output.push(String(text)) > 0)
  })
  afterEach(() => {
    // Each run adds a listener.
    for (const listener of process.stdout.listeners('error')) {
      if (!listeners.includes(listener)) process.stdout.off('error', listener as () => void)
    }
    vi.restoreAllMocks()
    rmSync(folder, { recursive: true })
  })
  return {
    output,
    errors,
    folder: () => folder,
    write(name, text) {
      writeFileSync(join(folder, name), text)
      return join(folder, name)
    },
    async run(...words) {
      process.exitCode = 0
      await runCommand(['node', 'wardline', ...words])
      const code = Number(process.exitCode)
      process.exitCode = 0
      return code
    },
  }
}
