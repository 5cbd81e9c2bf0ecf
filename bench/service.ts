import { execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { get } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { bundleCommand } from '../tools/bundle.ts'
import { killAtExit, removeFolder, temporaryFolder } from './cleanup.ts'
import { requestText } from './request.ts'

/** A running service with its data folder. `startupMs` = spawn to the first 200 of /healthz. */
export type Service = {
  port: number
  pid: number
  /** Key with full access. */
  key: string
  dataDir: string
  startupMs: number
  /** Returns a prepared request for the load generator, with the key. */
  prepare(method: string, path: string, body?: unknown, headers?: Record<string, string>): string
  /** Sends a request outside measurements; throws if the status is not `status`. */
  call(method: string, path: string, status: number[], body?: unknown): Promise<{ text: string; etag: string | null }>
  /** Terminates the process. Keeps the data folder unless `remove` is true. */
  stop(remove?: boolean): Promise<void>
}

const apiKey = randomBytes(24).toString('hex')
const startTimeoutMs = 30_000
const stopTimeoutMs = 10_000

/** Settings of measured services; all others have their defaults. */
function serviceEnvironment(port: number, dataDir: string): Record<string, string> {
  return {
    PATH: process.env.PATH ?? '',
    HOME: process.env.HOME ?? dataDir,
    PORT: String(port),
    WARDLINE_DATA_DIR: dataDir,
    WARDLINE_API_KEY: apiKey,
  }
}

/** Default: the bundle that `npm start` runs. */
let entry: Promise<string> | undefined

/** Sets another entry file to measure, such as a compiled build. */
export function useServiceEntry(file: string): void {
  entry = Promise.resolve(file)
}

/** Starts the service on a free port of 127.0.0.1 and waits until it is healthy; if not, throws the end of its log. */
export async function startService(
  dataDir: string = temporaryFolder(),
  settings: Record<string, string> = {},
): Promise<Service> {
  entry ??= bundleCommand()
  const command = await entry
  const port = await freePort()
  const logFile = join(dataDir, 'bench-service.log')
  // The log goes to a file, like with a service manager: reading a pipe would take CPU time of this process.
  const log = openSync(logFile, 'a')
  const startedAt = performance.now()
  const child = spawn(process.execPath, [command, 'serve'], {
    env: { ...serviceEnvironment(port, dataDir), ...settings },
    stdio: ['ignore', log, log],
  })
  killAtExit(child)
  closeSync(log)
  const logEnd = () => readFileSync(logFile, 'utf8').slice(-2000)
  let healthy = false
  let stopping = false
  let ended: string | undefined
  const exit = new Promise<void>((resolve) => {
    child.on('exit', (code, signal) => {
      ended = `${signal ?? code}`
      resolve()
      if (healthy && !stopping) console.error(`The service ended by itself (${ended}). End of its log:\n${logEnd()}`)
    })
  })
  while ((await healthStatus(port)) !== 200) {
    if (ended !== undefined || performance.now() - startedAt > startTimeoutMs) {
      child.kill('SIGKILL')
      const why = ended === undefined ? 'did not become healthy' : `ended (${ended})`
      throw new Error(`The service ${why}. End of its log:\n${logEnd()}`)
    }
    await sleep(2)
  }
  const startupMs = performance.now() - startedAt
  healthy = true
  const withKey = { 'X-Monitor-Key': apiKey }
  return {
    port,
    pid: child.pid!,
    key: apiKey,
    dataDir,
    startupMs,
    prepare: (method, path, body, headers = {}) => requestText(port, method, path, { ...withKey, ...headers }, body),
    async call(method, path, status, body) {
      const response = await fetch(`http://127.0.0.1:${port}${path}`, {
        method,
        headers: body === undefined ? withKey : { ...withKey, 'Content-Type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const text = await response.text()
      if (!status.includes(response.status)) throw new Error(`${method} ${path}: ${response.status} ${text}`)
      return { text, etag: response.headers.get('etag') }
    },
    async stop(remove = true) {
      const endedByItself = ended !== undefined
      stopping = true
      child.kill('SIGTERM')
      const patience = setTimeout(() => child.kill('SIGKILL'), stopTimeoutMs)
      await exit
      clearTimeout(patience)
      if (remove) removeFolder(dataDir)
      if (endedByItself) throw new Error(`The service ended by itself (${ended}).`)
      if (ended === 'SIGKILL') throw new Error(`The service did not stop within ${stopTimeoutMs} ms after SIGTERM.`)
    },
  }
}

/** Returns the resident memory of a process in KiB. */
export function residentKiB(pid: number): number {
  if (process.platform !== 'linux')
    return Number(execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' }))
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}

/** Returns the CPU time of a process in milliseconds. */
export function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** Returns the status of GET /healthz, 0 while nothing listens. The bare server responds to this path as well. */
function healthStatus(port: number): Promise<number> {
  return new Promise((resolve) => {
    const request = get({ port, host: '127.0.0.1', path: '/healthz', agent: false }, (response) => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
    request.on('error', () => resolve(0))
  })
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.on('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      server.close(() => resolve(port))
    })
  })
}
