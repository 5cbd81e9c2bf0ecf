import { connect } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { anyCharacter } from '../test-servers/any-character.ts'
import { expectRefusal } from './expectations.ts'
import { allEvents, anEvent, newInstance, postEvent, unique } from './fleet.ts'
import { keyedRoutes, openRoutes, pathWith } from './routes.ts'
import { type Service, startService } from './service.ts'
import type { StreamBody } from './shapes.ts'

let service: Service
let instanceId: string
beforeAll(async () => {
  service = await startService()
  instanceId = await newInstance(service, 'target')
})
afterAll(() => service?.stop())

/** Source of the invalid events: none of them may appear in the list. */
const neverStored = unique('never-stored')

const nested = (depth: number, leaf: unknown = 1): unknown => (depth === 0 ? leaf : { a: nested(depth - 1, leaf) })
const wrongTypes: [string, unknown][] = [
  ['a number', 7],
  ['true', true],
  ['null', null],
  ['a list', ['text']],
  ['an object', { text: 'text' }],
]
const hostileTexts: [string, string][] = [
  ['with a NUL', 'before\u0000after'],
  ['with half a surrogate pair', 'before\ud800after'],
  ['with the other half', '\udc00'],
]

interface Target {
  method: 'POST'
  path: string
  valid: () => Record<string, unknown>
  /** The text fields, and whether each is required. */
  texts: Record<string, 'required' | 'optional'>
}

const targets: Record<string, Target> = {
  heartbeat: {
    method: 'POST',
    path: '/api/heartbeat',
    valid: () => ({ instance_id: instanceId, name: 'Name' }),
    texts: { instance_id: 'required', name: 'required' },
  },
  event: {
    method: 'POST',
    path: '/api/events',
    valid: () => ({ ...anEvent({ source: neverStored }) }),
    texts: {
      severity: 'required',
      source: 'required',
      event_type: 'required',
      description: 'required',
      instance_id: 'optional',
      session_id: 'optional',
      ip_address: 'optional',
    },
  },
  kill: { method: 'POST', path: '/api/kill/:id', valid: () => ({ reason: 'why' }), texts: { reason: 'required' } },
  'key decoy': {
    method: 'POST',
    path: '/api/honeypots',
    valid: () => ({ instanceId, type: 'api_key', keyType: 'npm' }),
    texts: { instanceId: 'required', type: 'required', keyType: 'required', label: 'optional' },
  },
  'path decoy': {
    method: 'POST',
    path: '/api/honeypots',
    valid: () => ({ instanceId, type: 'file_path', path: '/srv/x/secret.env' }),
    texts: { instanceId: 'optional', path: 'required' },
  },
  'key check': {
    method: 'POST',
    path: '/api/honeypots/check/key',
    valid: () => ({ key: 'k' }),
    texts: { key: 'required' },
  },
  'path check': {
    method: 'POST',
    path: '/api/honeypots/check/path',
    valid: () => ({ path: '/p' }),
    texts: { path: 'required' },
  },
}

const send = (target: Target, body: unknown) =>
  service.call(target.method, target.path.replace(':id', instanceId), { body })

describe.each(Object.entries(targets))('the %s', (_name, target) => {
  const optionalNull = (field: string, value: unknown) => value === null && target.texts[field] === 'optional'

  test.each(Object.keys(target.texts))('refuses a %s that is not a text, and names the field', async (field) => {
    for (const [, value] of wrongTypes) {
      // The contract leaves open whether null means "absent" in an optional field.
      if (optionalNull(field, value)) continue
      expectRefusal(await send(target, { ...target.valid(), [field]: value }), 400, field)
    }
  })

  test.each(Object.keys(target.texts))(
    'refuses a %s with a NUL or half a surrogate pair, and names the field',
    async (field) => {
      for (const [, text] of hostileTexts) {
        expectRefusal(await send(target, { ...target.valid(), [field]: text }), 400, field)
      }
    },
  )

  test('names a required field that is missing', async () => {
    for (const [field, presence] of Object.entries(target.texts)) {
      if (presence === 'optional') continue
      const { [field]: _left, ...rest } = target.valid()
      expectRefusal(await send(target, rest), 400, field)
    }
  })

  test('refuses a body that is no object', async () => {
    for (const body of [[], [target.valid()], 'text', 7, true, null]) expectRefusal(await send(target, body), 400)
  })

  test('refuses what is not JSON', async () => {
    const path = target.path.replace(':id', instanceId)
    const whole = JSON.stringify(target.valid())
    for (const raw of [
      '',
      '{',
      whole.slice(0, -1),
      `${whole}}`,
      `${whole}x`,
      "{'a':1}",
      'undefined',
      'NaN',
      '\u0000',
      '\ufeff{',
    ]) {
      expectRefusal(await service.call('POST', path, { raw }), 400)
    }
    expectRefusal(await service.call('POST', path, { raw: Buffer.from([0xff, 0xfe, 0x00, 0x80]) }), 400)
  })

  test('refuses other content types', async () => {
    const path = target.path.replace(':id', instanceId)
    const raw = JSON.stringify(target.valid())
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'text/json',
      'nonsense',
    ]) {
      expectRefusal(await service.call('POST', path, { raw, headers: { 'content-type': type } }), [400, 415])
    }
  })

  // A key named __proto__ in a careless merge would change every object of the process.
  test('refuses __proto__, at the top level and nested', async () => {
    const path = target.path.replace(':id', instanceId)
    const valid = JSON.stringify(target.valid()).slice(1)
    const polluted = '{"isAdmin":true,"matched":true,"suspended":false}'
    for (const raw of [`{"__proto__":${polluted},${valid}`, `{"\\u005f_proto__":${polluted},${valid}`]) {
      expectRefusal(await service.call('POST', path, { raw }), 400, /__proto__/)
    }
    for (const field of ['metadata', 'meta']) {
      const raw = `{"${field}":{"a":{"__proto__":${polluted}}},${valid}`
      if (path === '/api/events' && field === 'meta') continue
      if (path !== '/api/events' && field === 'metadata') continue
      const answer = await service.call('POST', path, { raw })
      expectRefusal(answer, 400, /__proto__|meta/)
    }
  })

  test('refuses a body above 256 KiB, with its length declared or not', async () => {
    const path = target.path.replace(':id', instanceId)
    const raw = JSON.stringify({ padding: 'x'.repeat(256 * 1024), ...target.valid() })
    expectRefusal(await service.call('POST', path, { raw }), 413)
    expectRefusal(await service.call('POST', path, { raw, chunked: true }), 413)
  })

  test('refuses JSON that is nested too deeply', async () => {
    const path = target.path.replace(':id', instanceId)
    const valid = JSON.stringify(target.valid()).slice(1)
    const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
    expectRefusal(await service.call('POST', path, { raw: `{"extra":${deep},${valid}` }), 400)
    expectRefusal(await service.call('POST', path, { raw: deep }), 400)
  })
})

describe('the metadata of an event', () => {
  const post = (metadata: unknown) => service.call('POST', '/api/events', { body: { ...anEvent(), metadata } })
  const postRaw = (metadata: string) =>
    service.call('POST', '/api/events', { raw: `${JSON.stringify(anEvent()).slice(0, -1)},"metadata":${metadata}}` })

  test('has to be an object', async () => {
    for (const metadata of ['text', 7, true, [], [{}]]) expectRefusal(await post(metadata), 400, 'metadata')
  })

  test('is accepted with ten levels and refused with forty', async () => {
    expect((await post(nested(10))).status).toBe(201)
    expectRefusal(await post(nested(40)), 400, 'metadata')
    expectRefusal(await postRaw(`{"a":${'['.repeat(40)}${']'.repeat(40)}}`), 400, 'metadata')
  })

  test('is accepted with 15 KiB and refused with 17 KiB', async () => {
    expect((await post({ text: 'x'.repeat(15 * 1024) })).status).toBe(201)
    expectRefusal(await post({ text: 'x'.repeat(17 * 1024) }), 400, 'metadata')
    expectRefusal(await post({ text: '🦊'.repeat(5 * 1024) }), 400, 'metadata')
  })

  test('holds finite numbers only', async () => {
    for (const number of ['1e400', '-1e400', '1e999999'])
      expectRefusal(await postRaw(`{"a":${number}}`), 400, 'metadata')
    for (const word of ['NaN', 'Infinity', '0x1', '01', '.5', '1.']) expectRefusal(await postRaw(`{"a":${word}}`), 400)
  })

  test('holds no NUL and no half surrogate pair, in values and in names', async () => {
    for (const [, text] of hostileTexts) {
      expectRefusal(await post({ a: text }), 400, 'metadata')
      expectRefusal(await post({ a: [{ b: text }] }), 400, 'metadata')
      expectRefusal(await post({ [text]: 1 }), 400, 'metadata')
    }
  })

  test('stores names of object properties as plain data', async () => {
    const metadata = {
      toString: 'x',
      hasOwnProperty: 1,
      toJSON: 'y',
      length: -1,
      '': 'empty',
      $where: '1',
    }
    const description = unique('special-names')
    expect((await service.call('POST', '/api/events', { body: anEvent({ description, metadata }) })).status).toBe(201)
    const row = (await allEvents(service)).find((candidate) => candidate.description === description)
    expect(JSON.stringify(row?.metadata)).toBe(JSON.stringify(metadata))
  })
})

describe('after all that', () => {
  test('answers generated requests with a refusal or a stored event, never with 5xx', async () => {
    const value = fc.oneof(
      fc.jsonValue({ maxDepth: 3 }),
      fc.string({ unit: anyCharacter, maxLength: 120 }),
      fc.constant(undefined),
    )
    const fieldNames = [
      'severity',
      'source',
      'event_type',
      'description',
      'instance_id',
      'session_id',
      'metadata',
      'ip_address',
    ]
    const change = fc.dictionary(fc.constantFrom(...fieldNames), value, { minKeys: 1, maxKeys: 3 })
    await fc.assert(
      fc.asyncProperty(change, async (changed) => {
        const answer = await service.call('POST', '/api/events', { body: { ...anEvent(), ...changed } })
        if (answer.status === 201) return
        expectRefusal(answer, [400, 413])
      }),
      { numRuns: 400 },
    )
  })

  test('survives bytes that are not HTTP', async () => {
    const attempts = [
      'GET / HTTP/9.9\r\n\r\n',
      '\u0000\u0001\u0002\r\n\r\n',
      'GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Monitor-Key : x\r\n\r\n',
      `GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Pad: ${'x'.repeat(100_000)}\r\n\r\n`,
      'POST /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      'POST /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello',
    ]
    for (const bytes of attempts) expect(await speak(bytes)).toMatch(/^(HTTP\/1\.[01] 4\d\d |$)/)
    expect((await service.call('GET', '/healthz')).status).toBe(200)
  })

  test('has stored, suspended and planted nothing from refused requests', async () => {
    expect((await allEvents(service)).filter((row) => row.source === neverStored)).toEqual([])
    const state = await service.call('GET', `/api/instances/${instanceId}/status`)
    expect(state.body).toEqual({ suspended: false, reason: null })
    const decoys = await service.call('GET', `/api/honeypots?instance_id=${instanceId}`)
    expect(decoys.body).toEqual({ honeypots: [] })
  })

  test('every reading route still answers', async () => {
    const reading = [...keyedRoutes, ...openRoutes].filter(
      ({ method, path }) => method === 'GET' && (!path.includes(':id') || /^\/api\/instances\/:id(?!.*:id)/.test(path)),
    )
    for (const route of reading) {
      const stream = await service.openStream(pathWith(route, instanceId), { key: service.key })
      expect(stream.status, route.path).toBe(200)
      stream.close()
    }
  })

  test('every stored event can still be listed and streamed from the first on', async () => {
    const rows = await allEvents(service)
    const last = await postEvent(service)
    const oldest = rows.at(-1)
    const stream = await service.openStream('/api/stream', { lastEventId: String(oldest?.seq) })
    await stream.next<StreamBody>((body) => body.type === 'event' && body.data.id === last, 15_000)
    const streamed = stream.messages.filter((message) => (message.json as StreamBody).type === 'event')
    expect(streamed).toHaveLength(rows.length)
    stream.close()
  })
})

/** Writes bytes to a socket and returns what the server sends until it closes the connection. */
function speak(bytes: string): Promise<string> {
  return new Promise((resolve) => {
    const url = new URL(service.baseUrl)
    const socket = connect(Number(url.port), url.hostname)
    let text = ''
    const finish = () => {
      socket.destroy()
      resolve(text)
    }
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
    })
    socket.once('close', finish)
    socket.once('error', finish)
    socket.setTimeout(8_000, finish)
    socket.end(bytes)
  })
}
