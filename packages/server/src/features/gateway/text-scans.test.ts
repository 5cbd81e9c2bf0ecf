import Anthropic from '@anthropic-ai/sdk'
import type { EventRow } from '@wardline/contract'
import OpenAI from 'openai'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Principal } from '../../http/auth.ts'
import { openTestGateway } from '../../testing/model-gateway.ts'
import { generateDecoyKey } from '../honeypots/decoy-keys.ts'
import { CallBytes } from './call-body.ts'
import { nameWithoutKeys, TextScans } from './text-scans.ts'

let test: Awaited<ReturnType<typeof openTestGateway>>
let key: string
afterEach(() => test[Symbol.asyncDispose]())

async function open(env: Record<string, string> = {}) {
  test = await openTestGateway({ env })
  key = (await test.service.createKey('agent', ['bot'])).key
  await test.service.call('POST', '/api/heartbeat', { key, body: { instance_id: 'bot', name: 'Bot' } })
}
beforeEach(() => open())

interface Planted {
  id: string
  key: string
}
async function plant(keyType = 'anthropic', instanceId = 'bot'): Promise<Planted> {
  const body = { instanceId, type: 'api_key', keyType }
  const planted = (await test.service.call<Planted>('POST', '/api/honeypots', { body })).body
  await test.service.services.decoyChecks.refresh()
  return planted
}
const chat = '/openai/v1/chat/completions'
const bodyOf = (content: string) => ({ model: 'm-1', messages: [{ role: 'user', content }] })
const send = async (content: string) => {
  const reply = await test.send(chat, { key, body: bodyOf(content) })
  return { status: reply.status, text: await reply.text() }
}
const answerJson = (text: string) => {
  test.answer = ({ response }) => void response.writeHead(200, { 'content-type': 'application/json' }).end(text)
}
const eventsOf = async (type: string) => {
  await test.service.services.ingest.whenIdle()
  return (await test.service.call<{ events: EventRow[] }>('GET', `/api/events?event_type=${type}`)).body.events
}
const hits = () => eventsOf('honeypot_triggered')
const secrets = () => eventsOf('model_secret')
/** Waits until what has passed is searched, by closing the gateway. */
const searched = () => test.gateway.close(0)
/** Everything that is stored about events and decoys, and the log. */
const stored = async () =>
  JSON.stringify([
    await test.service.rows('select * from events'),
    await test.service.rows('select * from honeypot_hits'),
    await test.service.rows('select * from alerts'),
    test.service.logged,
  ])
const statusOf = async () => (await test.service.call<{ status: string }>('GET', '/api/instances/bot')).body.status

describe('a decoy key', () => {
  it('in a prompt is a hit of the agent, without its value, and passes byte for byte', async () => {
    const decoy = await plant()
    answerJson('{"choices":[]}')
    const text = `Use ${decoy.key} for it`
    expect(await send(text)).toEqual({ status: 200, text: '{"choices":[]}' })
    expect(test.provider.received[0]!.body).toBe(JSON.stringify(bodyOf(text)))
    await searched()
    expect(await hits()).toMatchObject([
      {
        severity: 'breach',
        by_service: true,
        instance_id: 'bot',
        description: 'A decoy key was sent to a model',
        metadata: { honeypot_id: decoy.id, form: 'text', found_in: 'prompt', planted_at: 'bot' },
      },
    ])
    expect(await stored()).not.toContain(decoy.key)
    expect(await statusOf()).toBe('active')
  })

  it('is one hit of a call for each decoy, of which the closest counts, in prompt and answer', async () => {
    const [first, second, elsewhere] = [await plant(), await plant('aws'), await plant('github', 'other')]
    answerJson(JSON.stringify({ choices: [{ message: { content: `${first.key} ${elsewhere.key}` } }] }))
    await send(`${second.key}\n${second.key} and ${first.key} again: ${first.key}`)
    await searched()
    const found = (await hits()).map(({ metadata }) => [metadata?.honeypot_id, metadata?.outside ?? false])
    expect(found.toSorted()).toEqual(
      [
        [first.id, false],
        [second.id, false],
        [elsewhere.id, true],
      ].toSorted(),
    )
  })

  it('that is the name of a model or a tool is a hit, and not in the event of the call', async () => {
    // Those of AWS have characters that no name of a model has.
    const names = [(await plant('github')).key, (await plant('openai')).key]
    const call = (name: string) => ({ function: { name } })
    answerJson(JSON.stringify({ choices: [{ message: { tool_calls: [...names, 'read_file'].map(call) } }] }))
    for (const name of names) {
      await (await test.send(chat, { key, body: { model: name } })).text()
      await (await test.send(chat, { key, body: { model: `x${name}` } })).text()
    }
    await (await test.send(`/gemini/v1beta/models/${names[0]}:generateContent`, { key, body: {} })).text()
    await searched()
    const calls = await eventsOf('model_call')
    expect(calls).toHaveLength(5)
    expect(calls.at(-1)!.metadata).toMatchObject({
      model: '(has a key)',
      tools: [...names.map(() => '(has a key)'), 'read_file'],
    })
    for (const name of names) expect(await stored()).not.toContain(name.slice(0, 30))
    expect((await hits()).length).toBeGreaterThan(0)
  })

  it('of an agent is found while the bodies of another key wait for their search', async () => {
    const decoy = await plant('github')
    const { id: otherKey } = await test.service.createKey('agent', ['other'])
    const { keyring } = test.service.services
    const scans = new TextScans(test.service.deps, test.service.services)
    const scan = (principal: Principal, instanceId: string, body: Buffer) => {
      const bytes = new CallBytes()
      bytes.push(body)
      const owner = { keyId: principal.keyId }
      const call = { instanceId, principal, owner, address: null, upstream: 'openai', model: null }
      scans.open(call, bytes, Promise.resolve())
    }
    const large = Buffer.alloc(32 * 1024 * 1024, ' ')
    for (let count = 0; count < 5; count++) scan(keyring.findById(otherKey)!, 'other', large)
    scan(keyring.find(key)!, 'bot', Buffer.from(JSON.stringify(bodyOf(decoy.key))))
    await scans.whenIdle()
    expect(await hits()).toMatchObject([{ instance_id: 'bot' }])
    expect((await eventsOf('decoy_check_exhausted')).map(({ metadata }) => metadata?.key_id)).toEqual([otherKey])
  }, 60_000)

  it('of an agent is found while the open answers of another key keep as much as they may', async () => {
    const decoy = await plant('github')
    const { id: otherKey } = await test.service.createKey('agent', ['other'])
    const { keyring } = test.service.services
    const scans = new TextScans(test.service.deps, test.service.services, 4 * 1024 * 1024)
    const ends: (() => void)[] = []
    const answer = (principal: Principal, instanceId: string) => {
      const owner = { keyId: principal.keyId }
      const call = { instanceId, principal, owner, address: null, upstream: 'openai', model: null }
      const ended = new Promise<void>((resolve) => ends.push(resolve))
      return scans.open(call, new CallBytes(), ended).readAnswer(true)
    }
    // Each of the texts could be the beginning of a key.
    const choices = Array.from({ length: 200 }, (_, index) =>
      line({ choices: [{ index, delta: { content: 'a'.repeat(2_000) } }] }),
    )
    for (let count = 0; count < 5; count++) {
      const read = answer(keyring.findById(otherKey)!, 'other')
      for (const choice of choices) await read(Buffer.from(choice))
    }
    const own = answer(keyring.find(key)!, 'bot')
    for (const content of piecesOf(decoy.key)) await own(Buffer.from(line({ choices: [{ delta: { content } }] })))
    for (const end of ends) end()
    await scans.whenIdle()
    expect(await hits()).toMatchObject([{ instance_id: 'bot' }])
    expect((await eventsOf('decoy_check_exhausted')).map(({ metadata }) => metadata?.key_id)).toEqual([otherKey])
    // All is given back.
    expect(scans.answerRoom.take(2 * 1024 * 1024, { keyId: 'any' })).toBe(true)
  }, 60_000)

  it('that Gemini writes in the pieces of a list is a hit', async () => {
    const decoy = await plant('github')
    const event = (text: string) => ({ candidates: [{ content: { parts: [{ text }], role: 'model' } }] })
    const events = piecesOf(`"The token": [${decoy.key}] \\"`).map(event)
    test.answer = ({ response }) =>
      void response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(`[${events.map((each) => JSON.stringify(each, null, 2)).join(',\r\n')}]`)
    await (await test.send('/gemini/v1beta/models/m-1:streamGenerateContent', { key, body: {} })).text()
    await searched()
    expect(await hits()).toMatchObject([{ metadata: { honeypot_id: decoy.id, found_in: 'answer' } }])
  })

  it('that may be in one of too many texts of an answer is reported as not searched', async () => {
    await plant('github')
    const choices = Array.from({ length: 201 }, (_, index) => ({ index, delta: { content: 'a' } }))
    test.answer = ({ response }) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(choices.map((choice) => line({ choices: [choice] })).join(''))
    }
    await send('Write')
    await searched()
    expect(await eventsOf('decoy_check_exhausted')).toHaveLength(1)
  })

  it('that only looks like one is no hit', async () => {
    const { key: value } = await plant()
    const other = value.replace(/.{4}AA$/, (end) => (end === 'abcdAA' ? 'abceAA' : 'abcdAA'))
    answerJson(JSON.stringify({ choices: [{ message: { content: other } }] }))
    await send(`${other} ${value.slice(0, -1)}`)
    await searched()
    expect(await hits()).toEqual([])
  })

  it('is found at the end of a body of the maximum size, which passes at once', async () => {
    const decoy = await plant()
    const filled = Buffer.from(JSON.stringify(bodyOf(`FILLER ${decoy.key}`)))
    const half = 'a long word and QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo and sk-proj-1 '
    const room = 32 * 1024 * 1024 - filled.length
    const body = filled.toString().replace('FILLER', half.repeat(Math.floor(room / half.length)))
    const reply = await test.send(chat, { key, body })
    expect([reply.status, test.provider.received[0]!.body === body]).toEqual([200, true])
    await searched()
    expect(await hits()).toHaveLength(1)
    expect(await eventsOf('decoy_check_exhausted')).toEqual([])
  }, 60_000)
})

/** The pieces in which a model writes a text. */
const piecesOf = (text: string) => text.match(/[\s\S]{1,3}/g)!
const line = (event: { type?: string; [field: string]: unknown }) =>
  `event: ${event.type ?? 'x'}\ndata: ${JSON.stringify(event)}\n\n`
const chunk = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm-1' }
const clients = {
  openai: {
    events: (text: string) =>
      piecesOf(text).map((content) =>
        line({ ...chunk, choices: [{ index: 0, delta: { content }, finish_reason: null }] }),
      ),
    async ask(baseURL: string) {
      const client = new OpenAI({ baseURL: `${baseURL}/openai/v1`, apiKey: key, maxRetries: 0 })
      let text = ''
      const stream = await client.chat.completions.create({ ...asked, stream: true })
      for await (const { choices } of stream) text += choices[0]?.delta.content ?? ''
      return text
    },
  },
  anthropic: {
    events: (text: string) => [
      line({ type: 'message_start', message: { id: 'msg_1', role: 'assistant', content: [], usage: {} } }),
      line({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
      ...piecesOf(text).map((piece) =>
        line({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: piece } }),
      ),
      line({ type: 'message_stop' }),
    ],
    async ask(baseURL: string) {
      const client = new Anthropic({ baseURL: `${baseURL}/anthropic`, apiKey: key, maxRetries: 0 })
      let text = ''
      const stream = await client.messages.create({ ...asked, max_tokens: 10, stream: true })
      for await (const event of stream) {
        if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') text += event.delta.text
      }
      return text
    },
  },
}
const asked = { model: 'm-1', messages: [{ role: 'user' as const, content: 'How is the weather?' }] }

describe.each(Object.entries(clients))('with the client of %s', (_, { events, ask }) => {
  const ofGateway = () => `http://127.0.0.1:${test.gateway.port}`

  it('a decoy key that a model writes in pieces is a hit, and the answer is complete', async () => {
    const decoy = await plant('github')
    const text = `The token: ${decoy.key}.`
    test.answer = ({ response }) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(events(text).join(''))
    }
    expect(await ask(ofGateway())).toBe(text)
    await searched()
    expect(await hits()).toMatchObject([
      {
        description: 'A decoy key was given out in an answer',
        metadata: { honeypot_id: decoy.id, found_in: 'answer' },
      },
    ])
    expect(await stored()).not.toContain(decoy.key)
  })

  it('suspends the agent where this is set, and cuts the answer that goes on', async () => {
    await test[Symbol.asyncDispose]()
    await open({ WARDLINE_AUTO_SUSPEND: 'decoy', WARDLINE_AUTO_SUSPEND_FLEET_MIN: '100' })
    const decoy = await plant('github')
    // The provider goes on until it is cut.
    const closed = new Promise<void>((resolve) => {
      test.answer = ({ response }) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(events(`The token: ${decoy.key} and`).slice(0, -1).join(''))
        response.once('close', resolve)
      }
    })
    await expect(ask(ofGateway())).rejects.toThrow()
    await closed
    expect(await statusOf()).toBe('suspended')
    expect((await send('again')).status).toBe(403)
    await searched()
    expect(await hits()).toHaveLength(1)
  })
})

const github = `ghp_${'a1B2c3D4e5'.repeat(4).slice(0, 36)}`
const aws = 'AKIAIOSFODNN7EXAMPLE'
const privateKey = `-----BEGIN PRIVATE KEY-----\n${'MC4CAQAwBQYDK2VwBCIEIHRlc3Q'.repeat(4)}\n-----END PRIVATE KEY-----`

describe('a secret of a known format', () => {
  it('is one event of a call: its format, how many and in which direction, never the secret', async () => {
    answerJson(JSON.stringify({ choices: [{ message: { content: `Export ${aws}; ${aws}` } }] }))
    await send(`${github} and ${github.replace('a1', 'z9')}\n${privateKey}\n${privateKey}`)
    await searched()
    expect(await secrets()).toMatchObject([
      {
        severity: 'warning',
        by_service: true,
        instance_id: 'bot',
        description: 'A call of a model has secrets in the prompt: github_token, private_key; in the answer: aws_key',
        metadata: {
          upstream: 'openai',
          model: 'm-1',
          prompt: { github_token: 2, private_key: 1 },
          answer: { aws_key: 1 },
          occurrences: 1,
        },
      },
    ])
    for (const secret of [github, aws, privateKey, github.slice(4, 20)]) expect(await stored()).not.toContain(secret)
    expect(await hits()).toEqual([])
  })

  it('that a conversation repeats with each call is reported again after a minute, with the number of calls', async () => {
    for (let turn = 0; turn < 30; turn++) await send(`${github}, turn ${turn}`)
    await searched()
    expect(await secrets()).toHaveLength(1)
    test.service.clock.advance(60_000)
    await test.service.services.countedReports.run()
    expect((await secrets()).map(({ metadata }) => metadata?.occurrences)).toEqual([29, 1])
  })

  it.each([
    'class="sk-cube-grid-item-2 pk-1" and hf_hub_download_v2 in pypi-attestations-0.0.1',
    'the token chatcmpl-9aBcDeFgHiJkLmNoPqRsTuVwXyZ12 and a hash d41d8cd98f00b204e9800998ecf8427e',
    '-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----',
  ])('is not seen in %s', async (text) => {
    answerJson(JSON.stringify({ choices: [{ message: { content: text } }] }))
    await send(text)
    await searched()
    expect(await secrets()).toEqual([])
  })
})

describe('the name of a model or a tool in an event', () => {
  it('is left out if it has a key behind other letters, of whatever characters', () => {
    for (const type of ['openai', 'anthropic', 'github'] as const) {
      const keys = Array.from({ length: 2_000 }, () => generateDecoyKey(type).value)
      expect(keys.filter((key) => nameWithoutKeys(`x${key}`) !== '(has a key)')).toEqual([])
    }
  })

  it.each([
    'gpt-5.1-codex-max-2026-01-01',
    'claude-sonnet-4-5-20250929',
    'meta-llama-Llama-4-Maverick-17B-128E-Instruct-FP8',
    'task-completion-model-v1-20250101',
    'mcp__github__create_or_update_file',
  ])('stays as it is: %s', (name) => expect(nameWithoutKeys(name)).toBe(name))
})
