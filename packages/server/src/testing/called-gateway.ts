import { channel } from 'node:diagnostics_channel'
import type { IncomingMessage, Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { EventRow } from '@wardline/contract'
import { openTestGateway } from './model-gateway.ts'
import type { startProvider } from './model-provider.ts'

const requestStart = 'http.server.request.start'

/** Opens a gateway for clients of the agent `bot`, to a provider that answers by `answer`. `file`: further fields of its file. */
export async function openCalledGateway(answer: Parameters<typeof startProvider>[0], file: object = {}) {
  const test = await openTestGateway({ file })
  const { service, provider, gateway } = test
  test.answer = answer
  /** Paths of the requests that the gateway received. */
  const requests: string[] = []
  const note = (message: unknown) => {
    const { request, server } = message as { request: IncomingMessage; server: Server }
    if ((server.address() as AddressInfo | null)?.port === gateway.port) requests.push(request.url!)
  }
  channel(requestStart).subscribe(note)
  const { key } = await service.createKey('agent', ['bot'])
  await service.call('POST', '/api/heartbeat', { key, body: { instance_id: 'bot', name: 'Bot', agent_type: 'test' } })
  return {
    service,
    provider,
    url: `http://127.0.0.1:${gateway.port}`,
    key,
    requests,
    kill: () => service.call('POST', '/api/kill/bot', { body: { reason: 'Leak' } }),
    resume: () => service.call('POST', '/api/resume/bot'),
    /** Returns the newest events of calls, newest first. */
    async calls(limit: number): Promise<EventRow[]> {
      await service.services.ingest.whenIdle()
      const path = `/api/events?event_type=model_call&limit=${limit}`
      return (await service.call<{ events: EventRow[] }>('GET', path)).body.events
    },
    async [Symbol.asyncDispose]() {
      channel(requestStart).unsubscribe(note)
      await test[Symbol.asyncDispose]()
    },
  }
}
