import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { parseMappings } from '../../config/roles-file.ts'
import { openTestService } from '../../testing/service.ts'

const folder = mkdtempSync(join(tmpdir(), 'wardline-roles-'))
afterAll(() => rmSync(folder, { recursive: true }))

const oidc = {
  WARDLINE_PUBLIC_URL: 'https://wardline.example.com',
  WARDLINE_OIDC_ISSUER: 'https://login.example.com',
  WARDLINE_OIDC_CLIENT_ID: 'wardline',
  WARDLINE_OIDC_CLIENT_SECRET: 'a secret',
}

it.each([
  ['- { group: a, role: viewer }', [{ group: 'a', role: 'viewer' }]],
  [
    '- group: a\n  role: admin\n- email: b@example.com\n  role: operator',
    [
      { group: 'a', role: 'admin' },
      { email: 'b@example.com', role: 'operator' },
    ],
  ],
  ['[]', []],
])('a file is read: %s', (text, mappings) => {
  expect(parseMappings(text, 'roles.yaml')).toEqual(mappings)
})

it.each([
  ['a: b', 'must be a list'],
  ['', 'must be a list'],
  ['- { group: a, role: root }', 'row 1: role must be viewer, approver, operator, or admin'],
  ['- { group: a, role: agent }', 'row 1: role must be viewer, approver, operator, or admin'],
  ['- { group: a }', 'row 1:'],
  ['- { role: viewer }', 'row 1: it must have either group or email'],
  ['- { group: a, email: b, role: viewer }', 'row 1: it must have either group or email'],
  ['- { group: a, role: viewer, tag: x }', 'row 1:'],
  ['- { group: a, role: viewer, tags: [] }', 'row 1:'],
  ["- { group: a, role: admin, tags: ['team:a'] }", 'row 1: role admin has no tags'],
  ['- &a { group: a, role: viewer }\n- *a', 'is not YAML'],
  ['- [', 'is not YAML'],
])('an invalid file is refused: %s', (text, sentence) => {
  expect(() => parseMappings(text, 'roles.yaml')).toThrow(sentence)
})

it('a file owns the table, is read again when it changes, and changes nothing while it is invalid', async () => {
  const file = join(folder, 'roles.yaml')
  writeFileSync(file, '- { group: a, role: viewer }')
  await using service = await openTestService({ env: { ...oidc, WARDLINE_OIDC_ROLES_FILE: file } })
  const read = async () => (await service.call('GET', '/api/roles')).body
  const viewer = { owner: 'file', mappings: [{ group: 'a', role: 'viewer' }], version: 0 }
  expect(await read()).toEqual(viewer)
  expect((await service.call('PUT', '/api/roles', { body: { mappings: [], version: 0 } })).status).toBe(409)
  writeFileSync(file, '- { group: a, role: ')
  utimesSync(file, 1, 1)
  expect(await read()).toEqual(viewer)
  writeFileSync(file, '- { group: a, role: admin }')
  utimesSync(file, 2, 2)
  expect(await read()).toEqual({ owner: 'file', mappings: [{ group: 'a', role: 'admin' }], version: 0 })
})

it('a table that is replaced is audited and alerted', async () => {
  await using service = await openTestService({ env: oidc })
  const mappings = [{ group: 'a', role: 'admin' }]
  expect((await service.call('PUT', '/api/roles', { body: { mappings, version: 0 } })).body).toEqual({
    owner: 'service',
    mappings,
    version: 1,
  })
  const { body } = await service.call<{ entries: object[] }>('GET', '/api/audit?action=people.roles')
  expect(body.entries).toMatchObject([{ before: [], after: mappings }])
  const alerts = await service.call<{ alerts: { description: string; severity: string }[] }>('GET', '/api/alerts')
  expect(alerts.body.alerts).toMatchObject([
    {
      severity: 'critical',
      description: expect.stringContaining('changed which groups have which role: 1 more of them admin'),
    },
  ])
  const invalid = await service.call<{ error: string }>('PUT', '/api/roles', {
    body: { mappings: [{ role: 'viewer' }], version: 1 },
  })
  expect([invalid.status, invalid.body.error]).toEqual([400, expect.stringContaining('mappings/0')])
})

it('two admins do not overwrite each other', async () => {
  await using service = await openTestService({ env: oidc })
  await using other = await openTestService({ env: oidc, dataDir: service.deps.config.dataDir, clock: service.clock })
  const put = (on: typeof service, group: string, version?: number) =>
    on.call<{ error: string; version: number }>('PUT', '/api/roles', {
      body: { mappings: [{ group, role: 'viewer' }], version },
    })
  expect((await put(service, 'a')).body.error).toBe('version is required.')
  const both = await Promise.all([put(service, 'a', 0), put(other, 'b', 0)])
  expect(both.map(({ status }) => status).toSorted()).toEqual([200, 409])
  const winner = both[0]!.status === 200 ? 'a' : 'b'
  const stored = { owner: 'service', mappings: [{ group: winner, role: 'viewer' }], version: 1 }
  expect((await service.call('GET', '/api/roles')).body).toEqual(stored)
  for (const version of [0, 2]) {
    expect((await put(service, 'c', version)).body.error).toBe(
      `The table of roles has version 1, not ${version}: it was changed meanwhile, read it again.`,
    )
  }
  expect((await put(service, 'c', 1)).body.version).toBe(2)
  const { body } = await service.call<{ entries: object[] }>('GET', '/api/audit?action=people.roles')
  expect(body.entries).toHaveLength(2)
})
