import { AsyncLocalStorage } from 'node:async_hooks'
import fs from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { syncBuiltinESMExports } from 'node:module'
import { Readable } from 'node:stream'
import { pathToFileURL } from 'node:url'

/** A command of `wardline-agent` to run, with everything that it takes from its process. */
export interface HostedCommand {
  args: readonly string[]
  env: Record<string, string>
  cwd: string
  /** Standard input. */
  input: string | Buffer
}

export interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

// Runs commands one after the other, each as if the process were its own: that saves the start of a process and the
// loading of its modules. Started by agent-command.ts with the program as its argument.

class Exit extends Error {}

/** What a command has of its process. Once it has exited, nothing that it left open prints or exits any more. */
class Run {
  readonly startedAt = timeSinceStart()
  readonly timers: NodeJS.Timeout[] = []
  readonly printed = { stdout: '', stderr: '' }
  readonly #end: (ended: Ended) => void
  #isOver = false

  constructor(end: (ended: Ended) => void) {
    this.#end = end
  }

  print(name: 'stdout' | 'stderr', data: string | Uint8Array): void {
    if (!this.#isOver) this.printed[name] += typeof data === 'string' ? data : Buffer.from(data).toString()
  }

  end(code: number): void {
    if (this.#isOver) return
    this.#isOver = true
    for (const timer of this.timers) clearTimeout(timer)
    for (const { globalAgent } of [http, https]) globalAgent.destroy()
    for (const name of faults) process.removeAllListeners(name).on(name, () => {})
    this.#end({ code, ...this.printed })
  }
}

/** What a pipe hands on at once. */
const pipeBytes = 64 * 1024
const faults = ['uncaughtException', 'unhandledRejection'] as const

const [, , program] = process.argv
const { setTimeout: startTimer } = globalThis
const { writeSync } = fs
const timeSinceStart = performance.now.bind(performance)
const headers = Object.getOwnPropertyDescriptor(globalThis, 'Headers')!

const running = new AsyncLocalStorage<Run>()
let latest: Run
const current = () => running.getStore() ?? latest
let count = 0

for (const name of ['stdout', 'stderr'] as const) {
  process[name].write = (data: string | Uint8Array, ...rest: unknown[]) => {
    current().print(name, data)
    const done = rest.find((each) => typeof each === 'function') as (() => void) | undefined
    if (done) process.nextTick(done)
    return true
  }
}
fs.writeSync = ((descriptor: number, data: Uint8Array, ...rest: []) => {
  if (descriptor !== 1 && descriptor !== 2) return writeSync(descriptor, data, ...rest)
  current().print(descriptor === 1 ? 'stdout' : 'stderr', data)
  return data.length
}) as typeof writeSync
globalThis.setTimeout = ((...given: Parameters<typeof startTimer>) => {
  const timer = startTimer(...given)
  current().timers.push(timer)
  return timer
}) as typeof startTimer
performance.now = () => timeSinceStart() - current().startedAt
process.exit = (code) => {
  current().end(Number(code ?? 0))
  throw new Exit()
}

function* chunksOf(input: Buffer) {
  for (let at = 0; at < input.length; at += pipeBytes) yield input.subarray(at, at + pipeBytes)
}

function run({ args, env, cwd, input }: HostedCommand): Promise<Ended> {
  return new Promise((resolve) => {
    const started = new Run(resolve)
    latest = started
    for (const name of faults) {
      process.removeAllListeners(name).on(name, (fault: unknown) => {
        started.print('stderr', String((fault as Error).stack))
        started.end(1)
      })
    }
    // A hook removes the class that loads fetch.
    Reflect.deleteProperty(globalThis, 'Headers')
    Object.defineProperty(globalThis, 'Headers', headers)
    process.chdir(cwd)
    for (const name of Object.keys(process.env)) delete process.env[name]
    Object.assign(process.env, env)
    process.argv = [process.execPath, program!, ...args]
    // Of the modules only the program itself is evaluated again.
    running.run(started, () => {
      const stdin = Readable.from(chunksOf(Buffer.from(input)), { objectMode: false })
      Object.defineProperty(process, 'stdin', { value: stdin, configurable: true })
      syncBuiltinESMExports()
      void import(`${pathToFileURL(program!).href}?${++count}`)
    })
  })
}

process.on('message', async (command: HostedCommand) => {
  process.send!(await run(command))
})
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
