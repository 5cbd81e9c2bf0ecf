import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { inject, onTestFinished } from 'vitest'
import type { HostedCommand, HostedResult } from './command-host.ts'
import { endWithTests } from './left-behind.ts'
import type { Exit } from './service.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

/** What a command finds in its environment beside the settings of a test. */
const environment = () => ({ PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', TMPDIR: tmpdir() })

interface Printed {
  output: string
  stdout: string
  stderr: string
}

export interface Command {
  /** Writes to its standard input, if that is a pipe. */
  type(text: string): void
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
 * shell's. `input`: its standard input.
 */
export function startCommand(
  args: string[],
  env: Record<string, string>,
  cwd = root,
  input: 'ignore' | 'pipe' = 'ignore',
): Command {
  const child = spawn(process.execPath, [inject('command'), ...args], {
    cwd,
    env: { ...environment(), ...env },
    stdio: [input, 'pipe', 'pipe'],
  })
  endWithTests(child)
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const printed: Printed = { output: '', stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]!.setEncoding('utf8').on('data', (text) => {
      printed.output += text
      printed[name] += text
    })
  }
  const ended = new Promise<Exit & Printed>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal, ...printed }))
  })
  return {
    type: (text) => void child.stdin?.write(text),
    kill: (signal) => void child.kill(signal),
    output: () => printed.output,
    stdout: () => printed.stdout,
    stderr: () => printed.stderr,
    ended,
  }
}

let host: Promise<ChildProcess> | undefined
let last: Promise<unknown> = Promise.resolve()

async function startHost(): Promise<ChildProcess> {
  const file = fileURLToPath(new URL('command-host.ts', import.meta.url))
  const program = inject('command').replace(/main\.mjs$/, 'run.mjs')
  const child = fork(file, [program], { execPath: process.execPath, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  endWithTests(child)
  await once(child, 'message')
  return child
}

/**
 * Runs a command to its end, like `startCommand`, in one process with the commands before it. Commands that wait for
 * signals, and tests of the process itself, need `startCommand`.
 */
export function runCommand(
  args: string[],
  env: Record<string, string>,
  cwd = root,
  input = '',
): Promise<HostedResult & { signal: null }> {
  const ended = last.then(async () => {
    host ??= startHost()
    const child = await host
    const command: HostedCommand = { args, env: { ...environment(), ...env }, cwd, input }
    child.send(command)
    const [result] = (await once(child, 'message')) as [HostedResult | { fault: string }]
    if ('fault' in result) throw new Error(`wardline ${args.join(' ')}: ${result.fault}`)
    return { ...result, signal: null }
  })
  last = ended.catch(() => {})
  return ended
}
