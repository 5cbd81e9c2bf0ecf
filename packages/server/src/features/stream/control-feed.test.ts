import type { ControlChange } from '@wardline/contract'
import { describe, expect, it, onTestFinished } from 'vitest'
import { adminKey, openTestService, type TestService } from '../../testing/service.ts'

const urls = new WeakMap<TestService, Promise<string>>()
function urlOf(service: TestService): Promise<string> {
  const known = urls.get(service) ?? service.app.listen({ host: '127.0.0.1', port: 0 })
  urls.set(service, known)
  return known
}

/** Opens a stream and waits for its first heartbeat. `next` resolves with the next frame, verbatim. */
async function listen(service: TestService, path: string, key?: string) {
  const abort = new AbortController()
  onTestFinished(() => abort.abort())
  const headers: Record<string, string> = key === undefined ? {} : { 'x-monitor-key': key }
  const response = await fetch(`${await urlOf(service)}${path}`, { headers, signal: abort.signal })
  expect(response.status).toBe(200)
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  async function next(): Promise<string> {
    while (!rest.includes('\n\n')) {
      const { value, done } = await reader.read()
      if (done) throw new Error('The stream ended.')
      rest += value
    }
    const end = rest.indexOf('\n\n')
    const frame = rest.slice(0, end)
    rest = rest.slice(end + 2)
    return frame
  }
  expect(await next()).toContain('{"type":"heartbeat"}')
  return { next }
}

async function openFleet(): Promise<TestService> {
  const service = await openTestService()
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'bot', name: 'bot' } })
  return service
}

const kill = (service: TestService, reason: string) => service.call('POST', '/api/kill/bot', { body: { reason } })
const changeOf = (frame: string): ControlChange => {
  const [name, data, ...more] = frame.split('\n')
  expect([name, more]).toEqual(['event: control', []])
  const { type, data: change } = JSON.parse(data!.replace(/^data: /, ''))
  expect(type).toBe('control')
  return change
}

describe('a stream with include=control', () => {
  it('sends each kill and resume as the event `control`, with the same data as the list', async () => {
    await using service = await openFleet()
    const { key } = await service.createKey('viewer')
    const stream = await listen(service, '/api/stream?include=control', key)
    await kill(service, 'first')
    const killed = changeOf(await stream.next())
    await service.call('POST', '/api/resume/bot')
    const resumed = changeOf(await stream.next())
    const { body } = await service.call<{ changes: ControlChange[] }>('GET', '/api/control-changes')
    expect([resumed, killed]).toEqual(body.changes)
    expect(killed).toMatchObject({ action: 'suspend', reason: 'first', actor_name: 'WARDLINE_API_KEY' })
  })

  it('sends changes by another process once, even without its message', async () => {
    await using service = await openFleet()
    const stream = await listen(service, '/api/stream?include=control', adminKey)
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    await kill(other, 'elsewhere')
    await Promise.all([service.services.eventStream.reconcile(), service.services.eventStream.reconcile()])
    await service.services.controlRelay.run()
    await service.services.eventStream.reconcile()
    await service.call('POST', '/api/resume/bot')
    expect(changeOf(await stream.next())).toMatchObject({ action: 'suspend', reason: 'elsewhere' })
    expect(changeOf(await stream.next())).toMatchObject({ action: 'resume' })
  })

  // A public stream must not show who made a kill and why.
  it('requires a key with read access, even where the stream is open', async () => {
    await using service = await openFleet()
    const agent = await service.createKey('agent', ['bot'])
    const ask = (key: string | null) => service.call('GET', '/api/stream?include=control', { key })
    expect(await ask(null)).toMatchObject({
      status: 401,
      body: { error: 'A key is required in the header X-Monitor-Key.' },
    })
    expect((await ask('wl_viewer_00000000_x_y')).status).toBe(401)
    expect((await ask(agent.key)).status).toBe(403)
    for (const query of ['include=events', 'include=', 'include=control&include=control']) {
      expect((await service.call('GET', `/api/stream?${query}`, { key: null })).status, query).toBe(401)
      expect((await service.call('GET', `/api/stream?${query}`)).status, query).toBe(400)
    }
  })

  it('ends when its key is revoked', async () => {
    await using service = await openFleet()
    const { id, key } = await service.createKey('viewer')
    const stream = await listen(service, '/api/stream?include=control', key)
    await service.call('DELETE', `/api/keys/${id}`)
    service.services.eventStream.endInvalid(({ keyId }) => keyId !== id)
    await expect(stream.next()).rejects.toThrow()
  })
})

// The wire format is fixed: by default, a client gets only the three types of messages.
it('a stream without include=control sends no control entry', async () => {
  await using service = await openFleet()
  const plain = await listen(service, '/api/stream')
  const asking = await listen(service, '/api/stream?include=control', adminKey)
  await kill(service, 'not for everybody')
  changeOf(await asking.next())
  await service.call('POST', '/api/events', {
    body: { severity: 'info', source: 's', event_type: 'note', description: 'after the kill' },
  })
  expect(await plain.next()).toMatch(/^data: \{"type":"event".*after the kill.*\nid: 1$/)
})
