import { createClient } from '@redis/client'
import { describe, expect, test } from 'vitest'
import { readMetric, sharedSettings, startProcesses, useServers } from '../cluster.ts'
import type { Stream } from '../event-stream.ts'
import { allEvents, newInstance, postEvent, unique } from '../fleet.ts'
import { type Service, until } from '../service.ts'
import type { ControlMessage, EventRow, StreamBody } from '../shapes.ts'

let services: Service[]
let first: Service
let second: Service
/** Another program on the same backplane. */
let other: Awaited<ReturnType<typeof openClient>>
const servers = useServers({
  async open() {
    services = await startProcesses(await sharedSettings(servers), 2)
    ;[first, second] = services as [Service, Service]
    other = await openClient()
  },
  async close() {
    for (const client of clients) client.destroy()
    await Promise.all(services?.map((service) => service.stop()) ?? [])
  },
})

const clients: { destroy(): void }[] = []
async function openClient() {
  const client = createClient({ url: servers.redis.url })
  client.on('error', () => {})
  clients.push(client)
  await client.connect()
  return client
}

/** Collects messages on a channel from now on, by any program. */
async function listen(channel: 'events' | 'control'): Promise<string[]> {
  const heard: string[] = []
  const client = await openClient()
  await client.subscribe(`wardline:${channel}`, (message) => void heard.push(message))
  return heard
}

const publish = (channel: 'events' | 'control', message: unknown) =>
  other.publish(`wardline:${channel}`, typeof message === 'string' ? message : JSON.stringify(message))

const describes = (description: string) => (body: StreamBody) =>
  body.type === 'event' && body.data.description === description

async function openStreams(): Promise<Stream[]> {
  const streams = await Promise.all(services.map((service) => service.openStream('/api/stream')))
  await Promise.all(streams.map((stream) => stream.next<StreamBody>((body) => body.type === 'heartbeat')))
  return streams
}

const eventsOf = (stream: Stream): EventRow[] =>
  stream.messages.flatMap(({ json }) =>
    (json as StreamBody).type === 'event' ? [(json as { data: EventRow }).data] : [],
  )

const row = (fields: object = {}) => ({
  severity: 'warning',
  source: 'scanner',
  event_type: 'scan_finding',
  description: unique('outside'),
  ...fields,
})

/** Stores an event and waits until both streams show it; by then earlier messages on the channel were processed. */
async function expectStillInStep(streams: Stream[]): Promise<EventRow> {
  const description = unique('real')
  const id = await postEvent(first, { description, metadata: { kept: true } })
  for (const stream of streams) {
    const { json, id: eventId } = await stream.next<StreamBody>(describes(description))
    const { data } = json as { data: EventRow }
    expect(data.id).toBe(id)
    expect(eventId).toBe(String(data.seq))
  }
  return (await allEvents(second))[0]!
}

describe('a row that another program publishes on the events channel', () => {
  test('reaches the stream clients of every process with its id and time, without a place in the sequence', async () => {
    const streams = await openStreams()
    const id = '0192f0c1-2345-7abc-8def-0123456789ab'
    const given = row({
      id,
      created_at: '2026-01-02T03:04:05.678Z',
      metadata: { host: 'db-1' },
      instance_id: 'agent-7',
    })
    expect(await publish('events', given), 'subscribed processes').toBe(2)
    for (const stream of streams) {
      const message = await stream.next<StreamBody>(describes(given.description))
      expect((message.json as { data: unknown }).data).toEqual({
        ...given,
        seq: null,
        by_service: false,
        session_id: null,
        ip_address: null,
        observed_ip_address: null,
      })
      // A client that resumes must not skip events stored in the meantime.
      expect(message.id).toBeUndefined()
      await stream.next<StreamBody>((body) => body.type === 'stats')
    }
    expect((await allEvents(first)).map(({ description }) => description)).not.toContain(given.description)
    await expectStillInStep(streams)
    for (const stream of streams) stream.close()
  })

  test('is counted and dropped when it is malformed, and harms nothing', async () => {
    const streams = await openStreams()
    const refused = 'wardline_backplane_messages_refused_total{channel="events",reason="malformed"}'
    const before = await Promise.all(services.map((service) => readMetric(service, refused)))
    const malformed: unknown[] = [
      '',
      'not JSON',
      '{"severity":"info"',
      'null',
      '[]',
      '7',
      {},
      row({ severity: 'loud' }),
      row({ description: 5 }),
      row({ source: '' }),
      row({ event_type: 'Not Snake' }),
      row({ instance_id: 'UPPER' }),
      row({ ip_address: 'nowhere' }),
      row({ metadata: 'text' }),
      row({ description: 'x'.repeat(1001) }),
      '{"__proto__":{"severity":"info"}}',
      `${'['.repeat(10_000)}`,
    ]
    for (const message of malformed) await publish('events', message)
    const good = row()
    await publish('events', good)
    for (const [index, stream] of streams.entries()) {
      await stream.next<StreamBody>(describes(good.description))
      expect(eventsOf(stream).map(({ description }) => description)).toEqual([good.description])
      expect((await readMetric(services[index]!, refused)) - before[index]!).toBe(malformed.length)
    }
    await expectStillInStep(streams)
    for (const stream of streams) stream.close()
  })

  test('is dropped when it is larger than any event', async () => {
    const refused = 'wardline_backplane_messages_refused_total{channel="events",reason="too_large"}'
    await publish('events', row({ metadata: { filler: 'x'.repeat(300_000) } }))
    for (const service of services) {
      await until(
        'the refusal',
        () => readMetric(service, refused),
        (count) => count === 1,
      )
    }
  })

  // A program that can publish could otherwise replace the next stored event, or make every process assume
  // that it missed a million events.
  test('takes no place in the sequence, whatever number and signature it claims', async () => {
    const heard = await listen('events')
    const streams = await openStreams()
    const last = await expectStillInStep(streams)
    // Earlier events may be published again if a process receives its own messages late.
    const said = (await until(
      'the row on the channel',
      () => heard.find((text) => JSON.parse(text).id === last.id),
      (text) => text !== undefined,
    ))!
    const genuine = JSON.parse(said)
    expect(genuine).toMatchObject({ id: last.id, seq: last.seq, signature: expect.stringMatching(/^[0-9a-f]{64}$/) })

    const forged = [
      { ...last, seq: last.seq + 1, description: unique('forged') },
      { ...genuine, seq: last.seq + 1, description: unique('forged') },
      { ...genuine, seq: 1_000_000, description: unique('forged') },
      { ...genuine, seq: -1, description: unique('forged') },
    ]
    for (const message of forged) await publish('events', message)
    // A repeated message is already known.
    await publish('events', said)
    const next = await expectStillInStep(streams)
    expect(next.seq).toBe(last.seq + 1)
    for (const stream of streams) {
      const stored = eventsOf(stream).filter(({ seq }) => seq !== null)
      expect(stored.map(({ seq }) => seq)).toEqual([last.seq, next.seq])
      const withId = stream.messages.filter(({ id }) => id !== undefined).map(({ id }) => id)
      expect(withId).toEqual([String(last.seq), String(next.seq)])
      for (const { description } of forged) {
        expect(
          eventsOf(stream)
            .filter((event) => event.description === description)
            .map(({ seq }) => seq),
        ).toEqual([null])
      }
      stream.close()
    }
  })
})

describe('a control message that another program publishes', () => {
  const poll = (service: Service, id: string) => service.call('GET', `/api/instances/${id}/status`)

  // An agent that can reach the backplane would otherwise resume itself.
  test('resumes no agent, whatever version it claims, even if it was true once', async () => {
    const heard = await listen('control')
    const id = await newInstance(first)
    const streams = await Promise.all(
      services.map((service) => service.openStream(`/api/instances/${id}/control`, { key: service.key })),
    )
    for (const service of services) await poll(service, id)
    await first.call('POST', `/api/kill/${id}`, { body: { reason: 'the first time' } })
    await first.call('POST', `/api/resume/${id}`)
    await first.call('POST', `/api/kill/${id}`, { body: { reason: 'for good' } })
    // An event may be published twice if a process receives its own messages late.
    const said = await until(
      'the three messages',
      () => {
        const all = heard
          .map((text) => JSON.parse(text) as ControlMessage)
          .filter((control) => control.instance_id === id)
        return new Map(all.map((control) => [control.version, control]))
      },
      ({ size }) => size === 3,
    )
    const [resumed, killed] = [said.get(2)!, said.get(3)!]
    for (const stream of streams) await stream.next<ControlMessage>(({ version }) => version === 3)

    const huge = { instance_id: id, action: 'resume', version: 2 ** 50, issued_at: new Date().toISOString() }
    await publish('control', { ...huge, signature: '0'.repeat(64) })
    await publish('control', { ...resumed, version: 2 ** 50 })
    await publish('control', { ...killed, action: 'resume' })
    await publish('control', { instance_id: id, action: 'resume' })
    await publish('control', 'resume everybody')
    await publish('control', resumed)
    for (const service of services) {
      for (const [reason, count] of [
        ['unsigned', 3],
        ['malformed', 2],
      ] as const) {
        const name = `wardline_backplane_messages_refused_total{channel="control",reason="${reason}"}`
        await until(
          `${count} refusals as ${reason}`,
          () => readMetric(service, name),
          (refused) => refused === count,
        )
      }
      expect((await poll(service, id)).body).toEqual({ suspended: true, reason: 'for good' })
    }
    await second.call('POST', `/api/resume/${id}`)
    for (const stream of streams) {
      await stream.next<ControlMessage>(({ version }) => version === 4)
      expect(stream.messages.map(({ json }) => (json as ControlMessage).version)).toEqual([0, 1, 2, 3, 4])
      stream.close()
    }
    for (const service of services) {
      await until(
        'the resume in polls',
        () => poll(service, id),
        ({ body }) => (body as { suspended: boolean }).suspended === false,
      )
    }
  })
})
