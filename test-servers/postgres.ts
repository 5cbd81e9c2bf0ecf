import { execFileSync } from 'node:child_process'
import { chownSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'
import type { TestCertificate } from './certificate.ts'
import { startOnFreePort } from './free-port.ts'
import { type GuardedProcess, startServer } from './guarded-process.ts'
import { type Cluster, makeCluster } from './postgres-cluster.ts'

/** A separate PostgreSQL server on 127.0.0.1 with a temporary data folder. */
export interface TestPostgres extends AsyncDisposable {
  /** URL of an empty database, with user and password of a superuser. */
  url: string
  port: number
  /** Creates another empty database. Resolves with its URL. */
  createDatabase(): Promise<string>
  /** Sends SIGKILL to the server and all its processes, like a machine failure. Resolves when they have exited. */
  kill(): Promise<void>
  /** Stops all its processes where they are, like a machine that hangs: its connections stay open and answer nothing. */
  freeze(): void
  /** Lets them continue after `freeze`. */
  thaw(): void
  /** Restarts it after `kill` with the same port and data. Resolves when it accepts connections. */
  start(): Promise<void>
  /** Terminates it if it runs, and removes its data. */
  stop(): Promise<void>
  /** Output since its last start. */
  log(): string
}

export interface PostgresOptions {
  /** Commits wait for the disk and survive a machine failure. Default: they do not. */
  durable?: boolean
  /** Its data is in memory, where there is room. */
  inMemory?: boolean
  /** It speaks TLS with this certificate. */
  certificate?: TestCertificate
  /** More settings, such as `{ max_connections: '20' }`. */
  settings?: Record<string, string>
}

function processes(): { pid: number; parent: number }[] {
  if (!existsSync('/proc/self/stat')) {
    const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n')
    return lines
      .map((line) => line.trim().split(/\s+/))
      .map(([pid, parent]) => ({ pid: Number(pid), parent: Number(parent) }))
  }
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        // State and parent follow the name, which may contain spaces.
        const [, parent] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
        return { pid: Number(pid), parent: Number(parent) }
      } catch {
        return []
      }
    })
}

function signalAll(postmaster: number, signal: NodeJS.Signals): void {
  // While stopped, it can neither start further children nor notify others that one died.
  process.kill(postmaster, 'SIGSTOP')
  for (const { pid, parent } of processes()) if (parent === postmaster) process.kill(pid, signal)
  process.kill(postmaster, signal)
}

async function run(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url })
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query(statement)
  } finally {
    await client.end()
  }
}

/** Throws if there are no binaries or the server does not start. */
export async function startPostgres(options: PostgresOptions = {}): Promise<TestPostgres> {
  return startCluster(await makeCluster(options.inMemory), options)
}

/** Returns the settings for it. The server refuses a key that others may read. */
function writeCertificate({ cert, key }: TestCertificate, folder: string, { uid, gid }: Cluster['user']) {
  const [certFile, keyFile] = [join(folder, 'server.crt'), join(folder, 'server.key')]
  writeFileSync(certFile, cert)
  writeFileSync(keyFile, key, { mode: 0o600 })
  if (uid !== undefined) for (const path of [certFile, keyFile]) chownSync(path, uid, gid!)
  return { ssl: 'on', ssl_cert_file: certFile, ssl_key_file: keyFile }
}

/** Starts a server on an existing data folder, and removes it with `stop`. Throws if the server does not start. */
export async function startCluster(
  { folder, command, user, password }: Cluster,
  { durable = false, certificate, settings = {} }: PostgresOptions = {},
): Promise<TestPostgres> {
  const tls = certificate && writeCertificate(certificate, folder, user)
  const fast = { fsync: 'off', full_page_writes: 'off' }
  const allSettings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    // Shared memory is in the data folder, so that nothing remains in /dev/shm after a kill.
    dynamic_shared_memory_type: 'mmap',
    // For several concurrent test files, each with services of ten connections.
    max_connections: '200',
    ...(durable ? {} : fast),
    ...tls,
    ...settings,
  }
  const flags = Object.entries(allSettings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const urlOn = (port: number, database = 'postgres') => `postgres://test:${password}@127.0.0.1:${port}/${database}`

  let server: GuardedProcess | undefined
  let databases = 0
  const startOn = async (port: number) => {
    await server?.release()
    // An immediate shutdown frees shared memory, unlike SIGKILL.
    const options = { ...user, folder, endSignal: 'SIGQUIT' } as const
    server = await startServer(
      [...command, '-p', String(port), ...flags],
      options,
      // A standby accepts "read-only connections".
      'system is ready to accept',
    )
  }
  const stop = async () => {
    if (server && !server.hasEnded()) process.kill(server.pid, 'SIGINT')
    await server?.ended
    await server?.release()
    rmSync(folder, { recursive: true, force: true })
  }
  const port = await startOnFreePort(startOn).catch((fault) => {
    rmSync(folder, { recursive: true, force: true })
    throw new Error(`PostgreSQL did not start: ${fault.message}`, { cause: fault })
  })

  return {
    url: urlOn(port),
    port,
    async createDatabase() {
      const name = `test_${++databases}`
      await run(urlOn(port), `create database ${name}`)
      return urlOn(port, name)
    },
    async kill() {
      if (server && !server.hasEnded()) signalAll(server.pid, 'SIGKILL')
      await server?.ended
    },
    freeze: () => signalAll(server!.pid, 'SIGSTOP'),
    thaw: () => signalAll(server!.pid, 'SIGCONT'),
    start: () => startOn(port),
    stop,
    log: () => server?.output() ?? '',
    [Symbol.asyncDispose]: stop,
  }
}
