import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { openTeamPair, type TeamPair, type TeamService } from '../../testing/teams.ts'

let pair: TeamPair
let service: TeamService
let url: string
beforeAll(async () => {
  pair = await openTeamPair({ WARDLINE_STREAM_AUTH: 'none' })
  service = pair.shared
  url = await service.app.listen({ host: '127.0.0.1', port: 0 })
})
afterAll(() => pair[Symbol.asyncDispose]())

type Message = { type: string; data: { instance_id: string | null; description?: string; action?: string } }

/** Opens a stream and waits for its first heartbeat. `until` resolves with all messages up to the event so described. */
async function listen(headers: Record<string, string>, path = '/api/stream') {
  const abort = new AbortController()
  onTestFinished(() => abort.abort())
  const response = await fetch(`${url}${path}`, { headers, signal: abort.signal })
  expect(response.status).toBe(200)
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  const frames: string[] = []
  async function next(): Promise<string> {
    while (frames.length === 0) {
      const { value, done } = await reader.read()
      if (done) throw new Error('The stream ended.')
      const parts = (rest + value).split('\n\n')
      rest = parts.pop()!
      frames.push(...parts)
    }
    return frames.shift()!
  }
  expect(await next()).toContain('{"type":"heartbeat"}')
  return {
    async until(description: string): Promise<Message[]> {
      const messages: Message[] = []
      while (messages.at(-1)?.data.description !== description) {
        const data = /^data: (.*)$/m.exec(await next())
        // Not even a comment shows that others had events.
        expect(data).not.toBeNull()
        messages.push(JSON.parse(data![1]!))
      }
      return messages
    },
  }
}

async function report(id: string | undefined, description: string): Promise<void> {
  const about = { severity: 'warning', source: 's', event_type: 'note', description }
  const body = id === undefined ? about : { ...about, instance_id: id }
  expect((await service.call('POST', '/api/events', { body })).status).toBe(201)
}

/** Reports events of all agents, and at last one of the team. */
async function reportAll(end: string): Promise<void> {
  for (const id of ['b-1', 'claims-a', 'untagged', undefined, 'unregistered']) await report(id, 'foreign')
  await report('a-2', 'own')
  await report('b-2', 'foreign')
  await report('a-1', end)
}

const described = (messages: readonly Message[]) =>
  messages.map(({ type, data }) => `${type} ${data.instance_id} ${data.description}`)

describe('the stream of a caller limited to a team', () => {
  it('has the events of its agents alone, live and after a break', async () => {
    const live = await listen({ 'x-monitor-key': service.limited })
    await reportAll('first end')
    const expected = ['event a-2 own', 'event a-1 first end']
    expect(described(await live.until('first end'))).toEqual(expected)
    const resumed = await listen({ 'x-monitor-key': service.limited, 'last-event-id': '0' })
    const replayed = described(await resumed.until('first end'))
    expect(replayed.slice(-2)).toEqual(expected)
    expect(replayed.filter((text) => !/^event a-[12] /.test(text))).toEqual([])
    await reportAll('second end')
    for (const stream of [live, resumed]) {
      expect(described(await stream.until('second end'))).toEqual(['event a-2 own', 'event a-1 second end'])
    }
  })

  it('follows the tags of operators while it is open', async () => {
    const live = await listen({ 'x-monitor-key': service.limited })
    await service.setTags('b-1', ['team:a'])
    await reportAll('tagged')
    expect(described(await live.until('tagged'))).toContain('event b-1 foreign')
    await service.setTags('b-1', ['team:b'])
    await reportAll('untagged')
    expect(described(await live.until('untagged')).filter((text) => text.includes('b-1'))).toEqual([])
  })

  it('has the kills and resumes of its agents alone', async () => {
    const live = await listen({ 'x-monitor-key': service.limited }, '/api/stream?include=control')
    for (const id of ['b-1', 'claims-a', 'a-1']) {
      expect((await service.call('POST', `/api/kill/${id}`, { body: { reason: 'test' } })).status).toBe(200)
      expect((await service.call('POST', `/api/resume/${id}`)).status).toBe(200)
    }
    await service.services.eventStream.reconcile()
    await reportAll('after control')
    const controls = (await live.until('after control')).filter(({ type }) => type === 'control')
    expect(controls.map(({ data }) => `${data.action} ${data.instance_id}`)).toEqual(['suspend a-1', 'resume a-1'])
  })

  it('is limited for its session too where the stream needs no key; others see all as before', async () => {
    const { headers } = await service.signIn(service.limited)
    const limited = await listen(headers)
    const others = [{}, { 'x-monitor-key': 'wrong' }, { cookie: headers.cookie }].map((given) =>
      listen(given as Record<string, string>),
    )
    const open = await Promise.all(others)
    await reportAll('with session')
    expect(described(await limited.until('with session'))).toEqual(['event a-2 own', 'event a-1 with session'])
    for (const stream of open) {
      const events = (await stream.until('with session')).filter(({ type }) => type === 'event')
      expect(events).toHaveLength(8)
    }
  })
})
