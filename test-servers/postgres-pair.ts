import { execFile } from 'node:child_process'
import { chownSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Client } from 'pg'
import { startCluster, type TestPostgres } from './postgres.ts'
import { type Cluster, makeCluster } from './postgres-cluster.ts'
import { connect } from './postgres-session.ts'

/** A primary and a synchronous standby: what the primary confirmed is on both. */
export interface PostgresPair extends AsyncDisposable {
  /** URL of the current primary, with user and password of a superuser; the database is the same after a failover. */
  readonly url: string
  /** URL of the current standby. */
  readonly standbyUrl: string
  /** Kills the primary with SIGKILL and promotes the standby. Resolves with the new URL once that accepts writes. */
  failOver(): Promise<string>
  /** Promotes the standby beside the primary. Resolves with the former primary, which the caller ends. */
  promote(): Promise<FormerPrimary>
  /** The current primary, for faults before `promote`. */
  readonly primary: Pick<TestPostgres, 'kill' | 'freeze'>
  /** From now on the standby receives nothing and commits do not wait for it: what follows is lost by a failover. */
  leaveStandbyBehind(): Promise<void>
  /** Gives the current primary a new standby. Resolves once commits wait for it. */
  addStandby(): Promise<void>
  stop(): Promise<void>
}

/** A primary that was replaced and may not know it. */
interface FormerPrimary extends Pick<TestPostgres, 'url' | 'thaw'> {
  end(): Promise<void>
}

/** Folders that a copy of a running server must have but whose content it must not (see pg_basebackup). */
const emptyFolders = 'pg_dynshmem pg_notify pg_replslot pg_serial pg_snapshots pg_stat_tmp pg_subtrans pg_wal'.split(
  ' ',
)
/** The copy gets other settings; the rest belongs to the process of the original. */
const leftOut = [...emptyFolders, 'postgresql.auto.conf', 'postmaster.pid', 'postmaster.opts']

const dataOf = ({ command }: Cluster): string => command.at(-1)!

function copyOf(primary: Cluster): Cluster {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-test-postgres-'))
  return { ...primary, folder, command: [...primary.command.slice(0, -1), join(folder, 'data')] }
}

interface RunningCopy {
  from: Cluster
  to: Cluster
  /** A connection to the primary. */
  client: Client
  settings: string
}

/** Copies the data of a running primary, like pg_basebackup, which the package of the binaries lacks. */
async function copyRunning({ from: primary, to, client, settings }: RunningCopy): Promise<void> {
  const { folder, user } = to
  const [from, data] = [dataOf(primary), dataOf(to)]
  const folders = [folder, data, ...emptyFolders.map((name) => join(data, name))]
  for (const path of folders) {
    if (path !== folder) mkdirSync(path, { mode: 0o700 })
    if (user.uid !== undefined) chownSync(path, user.uid, user.gid!)
  }
  await client.query(`select pg_backup_start('standby', fast => true)`)
  const entries = readdirSync(from).filter((name) => !leftOut.includes(name))
  await promisify(execFile)('cp', ['-a', ...entries.map((name) => join(from, name)), data])
  const { rows } = await client.query('select labelfile from pg_backup_stop(wait_for_archive => false)')
  const files = { backup_label: rows[0].labelfile, 'standby.signal': '', 'postgresql.auto.conf': settings }
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(data, name), text, { mode: 0o600 })
    if (user.uid !== undefined) chownSync(join(data, name), user.uid, user.gid!)
  }
}

/** Throws if there are no binaries or a server does not start. */
export async function startPrimaryWithStandby(): Promise<PostgresPair> {
  const options = { settings: { wal_keep_size: '1GB' } }
  const first = await makeCluster()
  let cluster = first
  let primary = await startCluster(cluster, options)
  let standby: { cluster: Cluster; server: TestPostgres } | undefined
  const ended: TestPostgres[] = []

  async function addStandby(): Promise<void> {
    const client = await connect(primary.url)
    try {
      const source = `host=127.0.0.1 port=${primary.port} user=test password=${cluster.password}`
      const copy = copyOf(cluster)
      await copyRunning({ from: cluster, to: copy, client, settings: `primary_conninfo = '${source}'\n` }).catch(
        (fault) => {
          rmSync(copy.folder, { recursive: true, force: true })
          throw fault
        },
      )
      standby = { cluster: copy, server: await startCluster(copy, options) }
      await client.query(`alter system set synchronous_standby_names = '*'`)
      await client.query('select pg_reload_conf()')
      const waits = `select 1 from pg_stat_replication where sync_state = 'sync'`
      while ((await client.query(waits)).rows.length === 0) await pause(5)
      // Its commit waits for the standby, which then has all earlier ones as well.
      await client.query('select pg_current_xact_id()')
    } finally {
      await client.end()
    }
  }

  async function leaveStandbyBehind(): Promise<void> {
    if (!standby) throw new Error('there is no standby: call addStandby first')
    for (const [server, setting, left] of [
      [primary, 'synchronous_standby_names', 'select 1 where current_setting($1) <> $2'],
      // Not frozen: what its kernel had received would be applied by the promotion.
      [standby.server, 'primary_conninfo', 'select 1 from pg_stat_wal_receiver where $1 <> $2'],
    ] as const) {
      const client = await connect(server.url)
      await client.query(`alter system set ${setting} = ''`)
      await client.query('select pg_reload_conf()')
      while ((await client.query(left, [setting, ''])).rows.length > 0) await pause(5)
      await client.end()
    }
  }

  async function promote(): Promise<FormerPrimary> {
    if (!standby) throw new Error('there is no standby: call addStandby first')
    const former = { cluster, primary }
    const client = await connect(standby.server.url)
    await client.query('select pg_promote(true)')
    await client.end()
    ;({ cluster, server: primary } = standby)
    standby = undefined
    const { url, thaw, kill, stop: end } = former.primary
    return {
      url,
      thaw,
      async end() {
        await kill()
        // All use the binaries in the first folder, if they had to be copied.
        if (former.cluster === first) ended.push(former.primary)
        else await end()
      },
    }
  }

  async function failOver(): Promise<string> {
    await primary.kill()
    await (await promote()).end()
    return primary.url
  }

  async function stop(): Promise<void> {
    for (const server of [standby?.server, primary, ...ended]) await server?.stop()
  }

  await addStandby().catch(async (fault) => {
    await stop()
    throw fault
  })
  return {
    get url() {
      return primary.url
    },
    get standbyUrl() {
      return standby!.server.url
    },
    failOver,
    promote,
    get primary() {
      return primary
    },
    leaveStandbyBehind,
    addStandby,
    stop,
    [Symbol.asyncDispose]: stop,
  }
}
