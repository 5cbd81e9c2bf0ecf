import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { describe, expect, inject, it, onTestFinished, vi } from 'vitest'
import { startPostgres } from './postgres.ts'
import { startPrimaryWithStandby } from './postgres-pair.ts'
import { startRedis } from './redis.ts'

const deadline = { timeout: 60_000, interval: 20 }

async function query(url: string, statement: string) {
  const client = new Client({ connectionString: url })
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.query(statement)).rows
  } finally {
    await client.end()
  }
}

/** Returns the responses of a Redis server to commands, one per line. */
async function ask(port: number, ...commands: string[]): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  let answer = ''
  socket.on('data', (chunk) => {
    answer += chunk
  })
  socket.end(`${commands.join('\r\n')}\r\n`)
  await once(socket, 'close')
  return answer
}

const listens = async (port: number) => {
  const socket = connect(port, '127.0.0.1')
  const isUp = await new Promise((resolve) =>
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false)),
  )
  socket.destroy()
  return isUp
}

/** A temporary folder that unprivileged users may write to, like the default one. */
function openScratch(): string {
  const scratch = mkdtempSync(join(tmpdir(), 'wardline-scratch-'))
  chmodSync(scratch, 0o1777)
  onTestFinished(() => rmSync(scratch, { recursive: true, force: true }))
  return scratch
}

describe('a primary with a standby', () => {
  it('loses nothing that was confirmed when it fails over, several times', async (ctx) => {
    const missing = inject('postgresMissing')
    if (missing) return ctx.skip(missing)
    const folders = () => readdirSync(tmpdir()).filter((name) => name.startsWith('wardline-test-postgres-'))
    const scratch = openScratch()
    vi.stubEnv('TMPDIR', scratch)
    onTestFinished(() => void vi.unstubAllEnvs())
    await using pair = await startPrimaryWithStandby()
    await query(pair.url, 'create table kept (round integer)')
    for (let round = 1; round <= 3; round++) {
      const { url } = pair
      await query(url, `insert into kept values (${round})`)
      const promoted = await pair.failOver()
      expect(promoted).toBe(pair.url)
      expect(promoted).not.toBe(url)
      await expect(query(url, 'select 1')).rejects.toThrow()
      expect(await query(promoted, 'select count(*)::integer as rounds from kept')).toEqual([{ rounds: round }])
      await pair.addStandby()
    }
    await pair.stop()
    expect(folders()).toEqual([])
  })
})

describe('a PostgreSQL of a test', () => {
  it('comes back after a kill on the same port, with everything that was committed', async (ctx) => {
    const missing = inject('postgresMissing')
    if (missing) return ctx.skip(missing)
    await using postgres = await startPostgres({ durable: true, settings: { max_connections: '17' } })
    const url = await postgres.createDatabase()
    await query(url, `create table notes as select current_setting('max_connections') as text`)
    const busy = query(url, 'select pg_sleep(600)').catch((fault: Error) => fault.message)
    await vi.waitFor(async () => {
      const sleeping = `select 1 from pg_stat_activity where query = 'select pg_sleep(600)'`
      expect(await query(postgres.url, sleeping)).toHaveLength(1)
    }, deadline)

    await postgres.kill()
    expect(await busy).toContain('terminated')
    expect(await listens(postgres.port)).toBe(false)
    await postgres.start()
    expect(postgres.log()).toContain('was not properly shut down')
    expect(await query(url, 'select text from notes')).toEqual([{ text: '17' }])

    await postgres.stop()
    expect(await listens(postgres.port)).toBe(false)
  })

  it('orders texts otherwise than by their bytes, and takes no connection without the password', async (ctx) => {
    const url = inject('postgresUrl')
    if (!url) return ctx.skip(inject('postgresMissing'))
    if (process.env.TEST_POSTGRES_URL) return ctx.skip('TEST_POSTGRES_URL is set: that server is as it is')
    const ordered = await query(
      url,
      `select string_agg(text, '' order by text) as texts from unnest(array['b', 'A', 'a', 'B']) as text`,
    )
    expect(ordered).toEqual([{ texts: 'aAbB' }])
    const stranger = new URL(url)
    stranger.password = 'guessed'
    await expect(query(stranger.href, 'select 1')).rejects.toMatchObject({ code: '28P01' })
  })
})

describe('a Redis of a test', () => {
  it('comes back after a kill on the same port, empty', async (ctx) => {
    const missing = inject('redisMissing')
    if (missing) return ctx.skip(missing)
    await using redis = await startRedis()
    expect(await ask(redis.port, 'SET a b', 'GET a')).toBe('+OK\r\n$1\r\nb\r\n')
    await redis.kill()
    expect(await listens(redis.port)).toBe(false)
    await redis.start()
    expect(await ask(redis.port, 'GET a')).toBe('$-1\r\n')
  })

  it('lets in whom its ACL file names', async (ctx) => {
    const missing = inject('redisMissing')
    if (missing) return ctx.skip(missing)
    const aclFile = join(openScratch(), 'users.acl')
    writeFileSync(aclFile, 'user default off\nuser bot on >secret +ping\n')
    await using redis = await startRedis({ aclFile })
    expect(await ask(redis.port, 'PING')).toContain('-NOAUTH')
    expect(await ask(redis.port, 'AUTH bot secret', 'PING')).toBe('+OK\r\n+PONG\r\n')
  })
})

describe('the servers of a test run', () => {
  it('leave neither a process nor a file behind when the run is killed', async (ctx) => {
    const missing = inject('postgresMissing') ?? inject('redisMissing')
    if (missing) return ctx.skip(missing)
    const scratch = openScratch()
    const program = `
      import { startPostgres } from './postgres.ts'
      import { startRedis } from './redis.ts'
      const servers = [await startPostgres(), await startRedis()]
      await (await startRedis()).kill()
      console.log(servers.map(({ port }) => port).join())`
    const run = spawn(process.execPath, ['--input-type=module', '-e', program], {
      cwd: fileURLToPath(new URL('.', import.meta.url)),
      env: { PATH: process.env.PATH, TMPDIR: scratch },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [line] = await once(createInterface(run.stdout), 'line')
    const ports = line.split(',').map(Number)
    expect(await Promise.all(ports.map(listens))).toEqual([true, true])
    run.kill('SIGKILL')
    await vi.waitFor(async () => {
      expect(await Promise.all(ports.map(listens))).toEqual([false, false])
      expect(readdirSync(scratch)).toEqual([])
    }, deadline)
  })
})
