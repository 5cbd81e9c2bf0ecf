import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RedisClient } from '@redis/client'
import { afterAll, expect, test } from 'vitest'
import { query, readMetric, settingsOn, startProcesses, useServers } from '../cluster.ts'
import { anEvent, unique } from '../fleet.ts'
import { until } from '../service.ts'

const servers = useServers()
const folder = mkdtempSync(join(tmpdir(), 'wardline-credentials-'))
afterAll(() => rmSync(folder, { recursive: true }))

const withLogin = (url: string, user: string, password: string) => {
  const named = new URL(url)
  named.username = user
  named.password = password
  return named.href
}

test('new passwords in the files of the URLs are used once the old ones are refused, without a restart', async () => {
  const { postgres, redis } = servers
  const databaseUrl = await postgres.createDatabase()
  const database = new URL(databaseUrl).pathname.slice(1)
  const setPassword = (password: string) => query(databaseUrl, `alter role rotated password '${password}'`)
  await query(databaseUrl, `create role rotated login password 'first'`)
  await query(databaseUrl, `alter database ${database} owner to rotated`)
  const admin = new RedisClient({ socket: { host: '127.0.0.1', port: redis.port } })
  await admin.connect()
  const setUser = (password: string) =>
    admin.sendCommand(['ACL', 'SETUSER', 'rotated', 'on', 'resetpass', `>${password}`, '+@all', 'allchannels'])
  await setUser('first')

  const files = { database: join(folder, 'database'), backplane: join(folder, 'backplane') }
  const writeFiles = (password: string) => {
    writeFileSync(files.database, `${withLogin(databaseUrl, 'rotated', password)}\n`)
    writeFileSync(files.backplane, `${withLogin(redis.url, 'rotated', password)}\n`)
  }
  writeFiles('first')
  const { DATABASE_URL: _, BACKPLANE_URL: __, ...settings } = settingsOn(databaseUrl, redis)
  const [service] = await startProcesses(
    { ...settings, DATABASE_URL_FILE: files.database, BACKPLANE_URL_FILE: files.backplane },
    1,
  )
  const report = () => service!.call('POST', '/api/events', { body: anEvent({ description: unique('rotated') }) })
  const isUp = async () =>
    (await report()).status === 201 && (await readMetric(service!, 'wardline_backplane_up')) === 1
  const dropConnections = async () => {
    await query(databaseUrl, `select pg_terminate_backend(pid) from pg_stat_activity where usename = 'rotated'`)
    await admin.sendCommand(['CLIENT', 'KILL', 'USER', 'rotated'])
  }
  await until('up with the first password', isUp, Boolean)

  // The file is written first, as secret managers do: what is connected stays, and what connects reads it.
  for (const password of ['second', 'third']) {
    writeFiles(password)
    await setPassword(password)
    await setUser(password)
    await dropConnections()
    await until(`up with the ${password} password`, isUp, Boolean)
  }
  // An unreadable file changes nothing.
  writeFileSync(files.database, 'no URL')
  expect((await report()).status).toBe(201)
  for (const password of ['first', 'second', 'third']) expect(service!.logs()).not.toContain(`:${password}@`)
  await admin.close()
  await service!.stop()
})
