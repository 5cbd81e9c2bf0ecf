import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { createTestAuthority } from '../../test-servers/certificate.ts'
import { query, settingsOn, startProcesses, useServers } from '../cluster.ts'
import { anEvent } from '../fleet.ts'
import { startToExit } from '../service.ts'

const dayMs = 86_400_000
const [authority, other] = [createTestAuthority(), createTestAuthority()]
/** Of 127.0.0.1 only. */
const certificate = authority.issue(Date.now() - dayMs, Date.now() + dayMs)
const servers = useServers({ postgres: { certificate } })
const folder = mkdtempSync(join(tmpdir(), 'wardline-tls-'))
afterAll(() => rmSync(folder, { recursive: true }))

function rootsOf(name: string, { cert }: { cert: string }): string {
  const path = join(folder, name)
  writeFileSync(path, cert)
  return path
}

test('PostgreSQL is used over TLS with sslmode=verify-full, and only under a name of its certificate', async () => {
  const { postgres, redis } = servers
  const url = await postgres.createDatabase()
  const verified = (roots: string) => `sslmode=verify-full&sslrootcert=${encodeURIComponent(roots)}`
  const roots = rootsOf('authority.pem', authority)
  const settings = settingsOn(`${url}?${verified(roots)}`, redis)
  const [service] = await startProcesses(settings, 1)
  expect((await service!.call('POST', '/api/events', { body: anEvent() })).status).toBe(201)
  const connections = await query<{ ssl: boolean }>(
    url,
    `select ssl from pg_stat_ssl natural join pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
  )
  expect(connections.length).toBeGreaterThan(0)
  expect(connections.every(({ ssl }) => ssl)).toBe(true)
  expect(service!.logs()).not.toMatch(/warning/i)
  await service!.stop()

  const refusals: [string, string, RegExp][] = [
    [
      'another name',
      `${url.replace('127.0.0.1', 'localhost')}?${verified(roots)}`,
      /Host: localhost.*: give the authority of the certificate as sslrootcert/,
    ],
    [
      'another authority',
      `${url}?${verified(rootsOf('other.pem', other))}`,
      /: give the authority of the certificate as sslrootcert/,
    ],
    [
      'no authority that Node.js knows',
      `${url}?sslmode=verify-full`,
      /: give the authority of the certificate as sslrootcert/,
    ],
    ['a missing file', `${url}?${verified(join(folder, 'missing.pem'))}`, /missing\.pem': correct sslrootcert/],
  ]
  for (const [what, refused, reason] of refusals) {
    const { DATABASE_URL: _, ...others } = settings
    const { code, output } = await startToExit({ ...others, DATABASE_URL: refused })
    expect(code, what).not.toBe(0)
    expect(output, what).toMatch(reason)
    expect(output, what).not.toContain(new URL(url).password)
  }
})
