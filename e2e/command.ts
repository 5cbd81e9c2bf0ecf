import { spawn } from 'node:child_process'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { inject, onTestFinished } from 'vitest'
import { endWithTests } from './left-behind.ts'
import type { Exit } from './service.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

interface Printed {
  output: string
  stdout: string
  stderr: string
}

export interface Command {
  kill(signal: NodeJS.Signals): void
  /** Output so far, in total or per stream. */
  output(): string
  stdout(): string
  stderr(): string
  /** Resolves with exit code and output. */
  ended: Promise<Exit & Printed>
}

/**
 * Starts a command of the command line, such as `audit verify`, in this folder, with these settings and nothing of the
 * shell's.
 */
export function startCommand(args: string[], env: Record<string, string>, cwd = root): Command {
  const child = spawn(process.execPath, [inject('command'), ...args], {
    cwd,
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', TMPDIR: tmpdir(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  endWithTests(child)
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const printed: Printed = { output: '', stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text) => {
      printed.output += text
      printed[name] += text
    })
  }
  const ended = new Promise<Exit & Printed>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal, ...printed }))
  })
  return {
    kill: (signal) => void child.kill(signal),
    output: () => printed.output,
    stdout: () => printed.stdout,
    stderr: () => printed.stderr,
    ended,
  }
}
