import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isoTime } from '../../../clock.ts'
import { documentedAddress, settingsWith } from '../../../testing/channel-settings.ts'
import { type Method, openTestService, type TestService } from '../../../testing/service.ts'

const canary = 'CANARYq7Xw2Lm9Zt'
const address = `https://${documentedAddress}`
const settings = settingsWith(canary)

/** The canary in plain text and in encodings. */
const forms = [
  canary,
  Buffer.from(canary).toString('hex'),
  // Without the ends, which depend on the neighboring characters.
  ...[0, 1, 2].map((shift) =>
    Buffer.from(' '.repeat(shift) + canary)
      .toString('base64')
      .slice(4, -5),
  ),
]
function expectNone(text: string, where: string): void {
  const lower = text.toLowerCase()
  for (const form of forms) expect(lower.includes(form.toLowerCase()), `${form} in ${where}`).toBe(false)
}

describe('secrets of channels', () => {
  let service: TestService
  const answers: string[] = []
  const made: string[] = []
  const call = async (method: Method, url: string, body?: object) => {
    const answer = await service.call<{ id: string; secret?: string }>(method, url, body ? { body } : {})
    answers.push(answer.text)
    return answer
  }

  beforeAll(async () => {
    service = await openTestService({ env: { WARDLINE_ALERT_ALLOW_CIDRS: '198.51.100.0/24' } })
    for (const [type, given] of Object.entries(settings)) {
      const { status, text, body } = await call('POST', '/api/alert-channels', { name: type, type, settings: given })
      expect(status, text).toBe(201)
      const url = `/api/alert-channels/${body.id}`
      await call('PATCH', url, { settings: given, min_severity: 'breach' })
      await call('PATCH', url, { settings: { ...given, [canary]: 1 } })
      await call('PATCH', url, { settings: { ...given, url: `${address}/ ${canary}` } })
      await call('PATCH', url, { settings: { ...given, token: `${canary} ${canary}` } })
      await call('PATCH', url, { settings: { ...given, url: `http://10.0.0.1/${canary}` } })
      await call('PATCH', url, { enabled: false })
      await call('PATCH', url, { enabled: true })
      await call('GET', url)
      if (type === 'webhook')
        made.push((await service.call<{ secret: string }>('POST', `${url}/rotate-secret`, { body: {} })).body.secret)
      if (type === 'slack') {
        const ends_at = isoTime(service.clock.now() + 60_000)
        await call('POST', '/api/alert-routes', { name: 'r', match: {}, channels: [body.id] })
        await call('POST', '/api/silences', { match: {}, reason: 'r', ends_at })
        await call('DELETE', url)
      }
    }
    for (const url of ['/api/alert-channels', '/api/audit', '/api/alert-routes', '/metrics']) await call('GET', url)
  })
  afterAll(() => service[Symbol.asyncDispose]())

  it('are available to the sender', () => {
    const kept = service.services.routingTable.current.channels
    expect(kept).toHaveLength(Object.keys(settings).length - 1)
    const secret = kept.filter(({ type }) => type !== 'syslog')
    for (const channel of secret) expect(JSON.stringify(channel.settings), channel.type).toMatch(/CANARY|whsec_/)
    expect(made[0]).toMatch(/^whsec_/)
  })

  // With a secret URL, a viewer could post false alarms to the channel.
  it('are in no response, including errors about them', () => {
    expect(answers.length).toBeGreaterThan(90)
    // The name of an unknown field is input of the caller, and the error repeats it.
    for (const text of answers) expectNone(text.replace(`settings.${canary} is not a known field`, ''), text)
  })

  // Backups and replicas of the database are stored in more places than the master secret.
  it('are in no column of any table, in no encoding', async () => {
    const tables = await service.tables()
    expect(tables).toContain('alert_channels')
    for (const table of tables) {
      const rows = JSON.stringify(await service.rows(`select * from ${table}`))
      expectNone(rows, table)
      expect(rows, table).not.toContain(made[0])
      expect(rows, table).not.toContain('whsec_')
    }
  })

  it('are in no line of the log', () => {
    expectNone(service.logged.join('\n'), 'the log')
    expect(service.logged.join('\n')).not.toContain('whsec_')
  })
})

describe('the configuration of channels', () => {
  const id = '01970000-0000-7000-8000-000000000000'
  const reads = ['/api/alert-channels', `/api/alert-channels/${id}`, '/api/alert-routes', '/api/silences']
  const writes: [Method, string][] = [
    ['POST', '/api/alert-channels'],
    ['PATCH', `/api/alert-channels/${id}`],
    ['DELETE', `/api/alert-channels/${id}`],
    ['POST', `/api/alert-channels/${id}/rotate-secret`],
    ['POST', '/api/alert-routes'],
    ['PUT', `/api/alert-routes/${id}`],
    ['DELETE', `/api/alert-routes/${id}`],
    ['POST', '/api/silences'],
    ['DELETE', `/api/silences/${id}`],
  ]

  // An agent that could silence or redirect alerts would be unmonitored.
  it('is readable with scope viewer, writable with scope operator, and gets 403 with scope agent', async () => {
    await using service = await openTestService()
    const keyOf = async (scope: 'agent' | 'viewer' | 'operator') => (await service.createKey(scope)).key
    const [agent, viewer, operator] = [await keyOf('agent'), await keyOf('viewer'), await keyOf('operator')]
    const status = async (method: Method, url: string, key: string | null) =>
      (await service.call(method, url, { key, ...(method === 'GET' || method === 'DELETE' ? {} : { body: {} }) }))
        .status
    for (const url of reads) {
      expect([200, 404], url).toContain(await status('GET', url, viewer))
      expect(await status('GET', url, agent), url).toBe(403)
      expect(await status('GET', url, null), url).toBe(401)
    }
    for (const [method, url] of writes) {
      expect([400, 404], `${method} ${url}`).toContain(await status(method, url, operator))
      expect(await status(method, url, viewer), `${method} ${url}`).toBe(403)
      expect(await status(method, url, agent), `${method} ${url}`).toBe(403)
      expect(await status(method, url, null), `${method} ${url}`).toBe(401)
    }
  })
})
