import { spawn } from 'node:child_process'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { endWithTests } from './left-behind.ts'
import type { Exit } from './service.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

export interface Command {
  kill(signal: NodeJS.Signals): void
  /** What it has printed so far. */
  output(): string
  /** How it ended and all that it printed. */
  ended: Promise<Exit & { output: string }>
}

/** Starts a command of the command line, such as `audit verify`, with these settings and nothing of the shell's. */
export function startCommand(args: string[], env: Record<string, string>): Command {
  const child = spawn(process.execPath, ['--conditions=wardline-source', 'packages/cli/src/main.js', ...args], {
    cwd: root,
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', TMPDIR: tmpdir(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  endWithTests(child)
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text
    })
  }
  const ended = new Promise<Exit & { output: string }>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal, output }))
  })
  return { kill: (signal) => void child.kill(signal), output: () => output, ended }
}
