import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  byHook,
  byProxy,
  byPython,
  bySdk,
  type Client,
  reportingByCurl,
  reportingByPython,
  reportingBySdk,
} from './calling-clients.ts'
import { allEvents, createKey, unique } from './fleet.ts'
import { type Service, startService, until } from './service.ts'

// A decoy is hit once by a call of any client, whether it checks the call or only reports it.

let service: Service
let key: string
beforeAll(async () => {
  service = await startService({
    env: {
      WARDLINE_AUTO_SUSPEND: 'decoy',
      WARDLINE_AUTO_SUSPEND_PER_MINUTE: '100',
      WARDLINE_AUTO_SUSPEND_FLEET_MIN: '100',
    },
  })
  key = await createKey(service, { scope: 'agent', instances: ['caller-*'] })
}, 60_000)
afterAll(() => service?.stop())

let count = 0
const byPath = (path: string) => ({ path })
const long = (path: string) => path.replace('/srv/', `/${'tmp/.././/'.repeat(60)}srv/`)
test.each<[string, Client, tool: string, argument: (path: string) => unknown, form: string]>([
  ['the SDK that guards its tools', bySdk, 'file-read', byPath, 'path'],
  ['the hook of a coding agent', byHook, 'Bash', (path) => ({ command: `cat ${path}` }), 'path'],
  ['the MCP proxy', byProxy, 'read_text_file', byPath, 'path'],
  ['the Python client that guards its tools', byPython, 'file-read', (path) => path, 'path'],
  ['the SDK that only reports', reportingBySdk, 'file-read', byPath, 'reported'],
  ['the SDK that only reports a command', reportingBySdk, 'Bash', (path) => ({ command: `cat ${path}` }), 'reported'],
  ['the Python client that only reports', reportingByPython, 'file-read', (path) => path, 'reported'],
  ['curl', reportingByCurl, 'file-read', (path) => path, 'reported'],
  // Attack: of a long path only the end is reported, which names no file.
  ['the SDK that only reports a long spelling', reportingBySdk, 'file-read', (path) => byPath(long(path)), 'reported'],
  ['the Python client that only reports a long spelling', reportingByPython, 'file-read', long, 'reported'],
])('%s hits a decoy once', async (_, client, tool, argument, form) => {
  const instanceId = unique('caller')
  // A name in the form of an id would be redacted.
  const path = `/srv/payroll-${++count}/.env`
  const { body: decoy } = await service.call<{ id: string }>('POST', '/api/honeypots', {
    body: { type: 'file_path', path },
  })
  // Suspended by its first call, a client makes no other: what is reported comes before or with it.
  await client({ service, key, instanceId }, [
    [tool, argument('/srv/notes.txt')],
    [tool, argument(path)],
  ])
  const { hits } = await until(
    'the hit',
    async () =>
      (await service.call<{ hits: { reporter: string; form: string }[] }>('GET', `/api/honeypots/${decoy.id}`)).body,
    (detail) => detail.hits.length > 0,
  )
  expect(hits).toMatchObject([{ reporter: instanceId, form }])
  const { body } = await service.call<{ status: string }>('GET', `/api/instances/${instanceId}`)
  expect(body.status).toBe('suspended')
  const types = (await allEvents(service)).filter((row) => row.instance_id === instanceId).map((row) => row.event_type)
  expect(types.filter((type) => type === 'honeypot_triggered')).toHaveLength(1)
})
