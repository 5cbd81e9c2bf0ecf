import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startOnFreePort } from './free-port.ts'
import { type GuardedProcess, startServer } from './guarded-process.ts'

/** A separate Redis server on 127.0.0.1 without persistence. */
export interface TestRedis extends AsyncDisposable {
  /** URL without user and password; with an ACL file the caller adds them. */
  url: string
  port: number
  /** Sends SIGKILL. Resolves when it has exited. */
  kill(): Promise<void>
  /** Restarts it after `kill`, empty, on the same port. Resolves when it responds. */
  start(): Promise<void>
  /** Terminates it if it runs. */
  stop(): Promise<void>
  /** Output since its last start. */
  log(): string
}

export interface RedisOptions {
  /** Path of an ACL file. */
  aclFile?: string
  /** More flags, such as `['--cluster-enabled', 'yes']`. */
  settings?: readonly string[]
}

/** Throws if there is none. */
export function findRedisBinary(): string {
  const found = ['redis-server', 'valkey-server'].find((name) => spawnSync(name, ['--version']).status === 0)
  if (found) return found
  throw new Error('No Redis: neither redis-server nor valkey-server is installed')
}

/** Throws if there is no binary or the server does not start. */
export async function startRedis({ aclFile, settings = [] }: RedisOptions = {}): Promise<TestRedis> {
  const binary = findRedisBinary()
  const folder = mkdtempSync(join(tmpdir(), 'wardline-test-redis-'))
  const nothingOnDisk = ['--dir', folder, '--save', '', '--appendonly', 'no']
  const flags = [
    '--bind',
    '127.0.0.1',
    ...nothingOnDisk,
    ...(aclFile === undefined ? [] : ['--aclfile', aclFile]),
    ...settings,
  ]

  let server: GuardedProcess | undefined
  const startOn = async (port: number) => {
    await server?.release()
    const options = { folder, endSignal: 'SIGKILL' } as const
    server = await startServer([binary, '--port', String(port), ...flags], options, 'Ready to accept connections')
  }
  const kill = async () => {
    if (server && !server.hasEnded()) process.kill(server.pid, 'SIGKILL')
    await server?.ended
  }
  const stop = async () => {
    await kill()
    await server?.release()
    rmSync(folder, { recursive: true, force: true })
  }
  const port = await startOnFreePort(startOn).catch((fault) => {
    rmSync(folder, { recursive: true, force: true })
    throw new Error(`Redis did not start: ${fault.message}`, { cause: fault })
  })

  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    kill,
    start: () => startOn(port),
    stop,
    log: () => server?.output() ?? '',
    [Symbol.asyncDispose]: stop,
  }
}
