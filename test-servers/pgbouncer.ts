import { spawnSync } from 'node:child_process'
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startOnFreePort } from './free-port.ts'
import { type GuardedProcess, startServer } from './guarded-process.ts'
import type { TestPostgres } from './postgres.ts'
import { unprivilegedUser } from './postgres-cluster.ts'
import { connect } from './postgres-session.ts'

/** A PgBouncer on 127.0.0.1 in front of a PostgreSQL server. */
export interface TestPgBouncer extends AsyncDisposable {
  /** Returns the URL of a database of the server, through PgBouncer. */
  through(databaseUrl: string): string
  /** Replaces every connection to the server as soon as its transaction has ended. */
  recycle(): Promise<void>
  stop(): Promise<void>
}

/** First version that knows prepared statements in transaction mode. */
const oldest = [1, 21] as const

/** Debian has it where only root looks for programs. */
const names = ['pgbouncer', '/usr/sbin/pgbouncer']

/** Returns the program, or why there is none. */
export function findPgBouncer(): { program: string } | { missing: string } {
  for (const program of names) {
    const { stdout, status } = spawnSync(program, ['--version'], { encoding: 'utf8' })
    if (status !== 0) continue
    const [, major, minor] = /^PgBouncer (\d+)\.(\d+)/.exec(stdout) ?? []
    if (Number(major) > oldest[0] || Number(minor) >= oldest[1]) return { program }
    return { missing: `PgBouncer ${major}.${minor} is too old: install ${oldest.join('.')} or newer` }
  }
  return { missing: 'PgBouncer is not installed' }
}

/** `settings`: lines of the section [pgbouncer]. Throws if the program does not start. */
export async function startPgBouncer(
  program: string,
  postgres: Pick<TestPostgres, 'url'>,
  settings: string,
): Promise<TestPgBouncer> {
  const { username, password, hostname, port: serverPort } = new URL(postgres.url)
  // PgBouncer refuses to run as root.
  const user = unprivilegedUser()
  const folder = mkdtempSync(join(tmpdir(), 'wardline-test-pgbouncer-'))
  const [ini, users] = ['pgbouncer.ini', 'users.txt'].map((name) => join(folder, name)) as [string, string]
  let server: GuardedProcess
  const stop = async () => {
    if (!server.hasEnded()) process.kill(server.pid, 'SIGKILL')
    await server.ended
    await server.release()
    rmSync(folder, { recursive: true, force: true })
  }
  const port = await startOnFreePort(async (port) => {
    const own = [
      'listen_addr = 127.0.0.1',
      `listen_port = ${port}`,
      'unix_socket_dir =',
      'auth_type = scram-sha-256',
      `auth_file = ${users}`,
      `admin_users = ${username}`,
    ]
    const lines = ['[databases]', `* = host=${hostname} port=${serverPort}`, '[pgbouncer]', ...own, settings]
    writeFileSync(ini, `${lines.join('\n')}\n`)
    writeFileSync(users, `"${username}" "${password}"\n`)
    if (user.uid !== undefined) for (const path of [folder, ini, users]) chownSync(path, user.uid, user.gid!)
    server = await startServer([program, ini], { ...user, folder, endSignal: 'SIGKILL' }, 'process up')
  }).catch((fault) => {
    rmSync(folder, { recursive: true, force: true })
    throw new Error(`PgBouncer did not start: ${fault.message}`, { cause: fault })
  })
  const through = (databaseUrl: string) => Object.assign(new URL(databaseUrl), { port: String(port) }).href
  return {
    through,
    async recycle() {
      const client = await connect(through(postgres.url).replace(/[^/]*$/, 'pgbouncer'))
      await client.query('reconnect')
      await client.end()
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}
