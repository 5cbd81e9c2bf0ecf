import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { Agent } from 'node:http'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, inject } from 'vitest'
import { type Answer, type CallOptions, request } from './call.ts'
import { openStream, type Stream, type StreamOptions } from './event-stream.ts'
import { endWithTests, removeWithTests } from './left-behind.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

// Vitest sets BASE_URL to '/' in its workers unless its configuration passes on the caller's value.
const givenUrl = /^https?:\/\//.test(process.env.BASE_URL ?? '') ? process.env.BASE_URL : undefined
if (givenUrl === undefined && process.env.WARDLINE_KEY !== undefined) {
  throw new Error('WARDLINE_KEY is given without a BASE_URL that starts with http:// or https://')
}

/** With BASE_URL, tests only send requests to the deployment: they do not stop, kill or inspect it. */
export const isExternal = givenUrl !== undefined

/** Reason to skip a test of the process with BASE_URL. */
export const needsOwnProcess = 'BASE_URL is set: a deployment that others run is not stopped, killed or looked into'

export interface Exit {
  code: number | null
  signal: NodeJS.Signals | null
}

export interface ServiceOptions {
  /** Settings in addition to the defaults of tests. A PORT or WARDLINE_API_KEY given here is also that of `call`. */
  env?: Record<string, string>
  /** Starts without WARDLINE_API_KEY, like a new user. */
  withoutKey?: boolean
  /** A program that runs the service as its argument, such as a tracer. */
  wrapper?: string[]
  /** Default: `serve`. `gateway` runs the model gateway alone; `call` then reaches its port. */
  command?: 'serve' | 'gateway'
  /** The main file of another version. Default: this one. */
  program?: string
}

export interface Service {
  baseUrl: string
  port: number
  key: string
  dataDir: string
  /** Process id; undefined after it has exited, and with BASE_URL. */
  pid(): number | undefined
  /** Output of the service over all its starts. */
  logs(): string
  call<Body = unknown>(method: string, path: string, options?: CallOptions): Promise<Answer<Body>>
  openStream(path: string, options?: StreamOptions): Promise<Stream>
  start(): Promise<void>
  terminate(timeoutMs?: number): Promise<Exit>
  kill9(): Promise<Exit>
  restart(): Promise<void>
  /** All bytes in the data folder, to search for texts that must not be stored. */
  storedBytes(): Buffer
  /** Terminates the process and removes the data folder. */
  stop(): Promise<void>
}

/** Maximum wait for a condition. It is reached only if the condition never holds, or on a very busy machine. */
export const patienceMs = 60_000

/** Polls until the value satisfies the condition; after the deadline it throws with the last value. */
export async function until<T>(
  what: string,
  read: () => Promise<T> | T,
  holds: (value: T) => boolean,
  timeoutMs = patienceMs,
): Promise<T> {
  const startedAt = performance.now()
  for (;;) {
    const value = await read()
    if (holds(value)) return value
    const waitedMs = performance.now() - startedAt
    if (waitedMs > timeoutMs) {
      throw new Error(`${what} did not come about within ${timeoutMs} ms; last seen: ${JSON.stringify(value)}`)
    }
    // A long wait polls less often, because polls take CPU time from concurrent tests.
    await pause(Math.min(Math.max(20, waitedMs / 20), 200))
  }
}

/** Matches the last output of a process for which a database server on a busy machine was too slow. */
export const databaseTooSlow =
  /(connection timeout|timeout exceeded when trying to connect|statement timeout|The database does not answer\.?)\s*$/

/** Starts a service process and waits until /healthz responds with 200; with BASE_URL it returns that deployment. */
export async function startService(options: ServiceOptions = {}): Promise<Service> {
  const service = isExternal && Object.keys(options).length === 0 ? externalService() : await ownService(options)
  await service.start()
  return service
}

/** Starts the service with an invalid configuration and returns its exit code and output. */
export async function startToExit(
  env: Record<string, string>,
  options: Pick<ServiceOptions, 'command' | 'program'> = {},
): Promise<Exit & { output: string }> {
  const dataDir = env.WARDLINE_DATA_DIR ?? newDataDir()
  const child = spawnService({ PORT: '0', WARDLINE_API_KEY: newApiKey(), WARDLINE_DATA_DIR: dataDir, ...env }, options)
  let output = ''
  child.process.stdout?.on('data', (chunk) => {
    output += chunk
  })
  child.process.stderr?.on('data', (chunk) => {
    output += chunk
  })
  try {
    const exit = await withDeadline(
      child.exited,
      patienceMs,
      () => `the service did not refuse to start; it said:\n${output}`,
    )
    return { ...exit, output }
  } finally {
    child.process.kill('SIGKILL')
    rmSync(dataDir, { recursive: true, force: true })
  }
}

/** Returns a key of 48 characters; the service requires 32. */
export function newApiKey(): string {
  return randomBytes(24).toString('hex')
}

/** Creates a folder that is removed when the test process ends. */
export function newDataDir(): string {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-e2e-'))
  removeWithTests(folder)
  return folder
}

let emptyFolder: string | undefined

/** Rules come from this empty folder, so that tests have no rules but theirs: not the starter rules of a first start. */
function folderWithoutRules(): string {
  emptyFolder ??= newDataDir()
  return emptyFolder
}

/**
 * Each worker has a separate port range below that of outgoing connections. Otherwise a port could be taken between
 * the check and the start of the service, and the test would reach another server.
 */
let nextPort = 20_000 + Number(process.env.VITEST_POOL_ID ?? 0) * 2_000

/** Returns a port that was just free. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = nextPort++
    if (await canListen(port)) return port
  }
}

/** Whether nothing listens on a port. */
export function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

function externalService(): Service {
  const baseUrl = givenUrl ?? ''
  const key = process.env.WARDLINE_KEY
  if (key === undefined) throw new Error('BASE_URL needs WARDLINE_KEY, an admin key of that deployment')
  const agent = new Agent({ keepAlive: true })
  const refuse = () => Promise.reject(new Error(needsOwnProcess))
  return {
    baseUrl,
    port: Number(new URL(baseUrl).port),
    key,
    dataDir: '',
    pid: () => undefined,
    logs: () => '',
    call: (method, path, callOptions) => request(baseUrl, key, agent, method, path, callOptions),
    openStream: (path, streamOptions) => openStream(baseUrl, path, streamOptions),
    start: async () => {
      const health = await request(baseUrl, undefined, agent, 'GET', '/healthz')
      if (health.status !== 200) throw new Error(`${baseUrl}/healthz answers ${health.status}`)
    },
    terminate: refuse,
    kill9: refuse,
    restart: refuse,
    storedBytes: () => Buffer.alloc(0),
    stop: async () => agent.destroy(),
  }
}

async function ownService(options: ServiceOptions): Promise<Service> {
  const dataDir = newDataDir()
  const port = options.env?.PORT === undefined ? await freePort() : Number(options.env.PORT)
  const baseUrl = `http://127.0.0.1:${port}`
  const key = options.env?.WARDLINE_API_KEY ?? newApiKey()
  const env: Record<string, string> = {
    HOST: '127.0.0.1',
    PORT: String(port),
    WARDLINE_DATA_DIR: dataDir,
    WARDLINE_RULES_DIR: folderWithoutRules(),
    ...(options.command === 'gateway' ? { WARDLINE_GATEWAY_PORT: String(port) } : {}),
  }
  if (!options.withoutKey) env.WARDLINE_API_KEY = key
  Object.assign(env, options.env)

  let output = ''
  let running: SpawnedService | undefined
  let agent = new Agent({ keepAlive: true })

  const call: Service['call'] = (method, path, callOptions) => request(baseUrl, key, agent, method, path, callOptions)

  const end = async (signal: NodeJS.Signals, timeoutMs: number): Promise<Exit> => {
    if (running === undefined) throw new Error('the service is not running')
    const { process: child, exited } = running
    child.kill(signal)
    const exit = await withDeadline(exited, timeoutMs, () => {
      child.kill('SIGKILL')
      return `the service did not end within ${timeoutMs} ms of ${signal}; it said:\n${output}`
    })
    running = undefined
    agent.destroy()
    agent = new Agent({ keepAlive: true })
    return exit
  }

  const spawnOnce = () => {
    const spawned = spawnService(env, options)
    const run = { exit: undefined as Exit | undefined, output: '' }
    running = spawned
    for (const stream of [spawned.process.stdout, spawned.process.stderr]) {
      stream?.on('data', (chunk) => {
        output += chunk
        run.output += chunk
      })
    }
    void spawned.exited.then((value) => {
      run.exit = value
    })
    return run
  }

  const start = async () => {
    let run = spawnOnce()
    await until(
      'a first answer of /healthz',
      async () => {
        // Like a supervisor.
        if (run.exit?.code === 1 && databaseTooSlow.test(run.output)) run = spawnOnce()
        if (run.exit) throw new Error(`the service ended with ${JSON.stringify(run.exit)}; it said:\n${output}`)
        return await call('GET', '/healthz', { key: null }).then(
          (answer) => answer.status,
          () => 0,
        )
      },
      (status) => status === 200,
      2 * patienceMs,
    )
  }

  return {
    baseUrl,
    port,
    key,
    dataDir,
    pid: () => (running?.process.exitCode === null ? running.process.pid : undefined),
    logs: () => output,
    call,
    openStream: (path, streamOptions) => openStream(baseUrl, path, streamOptions),
    start,
    terminate: (timeoutMs = patienceMs) => end('SIGTERM', timeoutMs),
    kill9: () => end('SIGKILL', patienceMs),
    restart: async () => {
      if (running !== undefined) await end('SIGTERM', patienceMs)
      await start()
    },
    storedBytes: () => {
      const files = readdirSync(dataDir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
      return Buffer.concat(files.map((file) => readFileSync(join(file.parentPath, file.name))))
    },
    stop: async () => {
      if (running !== undefined) await end('SIGTERM', patienceMs)
      agent.destroy()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

interface SpawnedService {
  process: ChildProcess
  exited: Promise<Exit>
}

const children = new Set<ChildProcess>()
// Registered while a test file is loaded, so it runs after the hooks of that file, even if a test failed.
afterAll(() => {
  for (const child of children) child.kill('SIGKILL')
})

// Inherits only the necessary variables: a WARDLINE_* or TRUST_* of the shell must not affect a test.
function spawnService(
  env: Record<string, string>,
  { wrapper = [], command: name = 'serve', program = inject('command') }: ServiceOptions,
): SpawnedService {
  const service = [process.execPath, program, name]
  const [command = '', ...args] = [...wrapper, ...service]
  const inherited = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', TMPDIR: tmpdir() }
  const child = spawn(command, args, { cwd: root, env: { ...inherited, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  children.add(child)
  endWithTests(child)
  const exited = new Promise<Exit>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => {
      children.delete(child)
      resolve({ code, signal })
    })
  })
  return { process: child, exited }
}

async function withDeadline<T>(promise: Promise<T>, timeoutMs: number, complaint: () => string): Promise<T> {
  const timer = new AbortController()
  const late = pause(timeoutMs, undefined, { signal: timer.signal }).then(() => Promise.reject(new Error(complaint())))
  // The aborted timer rejects too, and would be unhandled.
  late.catch(() => {})
  try {
    return await Promise.race([promise, late])
  } finally {
    timer.abort()
  }
}
