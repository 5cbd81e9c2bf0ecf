import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { EventRow } from '@wardline/contract'
import { expect, it } from 'vitest'
import { openTestService } from '../../testing/service.ts'

const metrics = { event_type: 'session_metrics', description: '{"input_tokens":50,"output_tokens":6}' }

it.each<[string, 'logs' | 'traces', object[]]>([
  [
    'codex-0.171.0',
    'logs',
    [
      {
        ...{ event_type: 'tool_call', session_id: '01a22036-310c-7251-94f9-f09d6e64284f' },
        metadata: { toolName: 'exec_command', callId: 'call_1', durationMs: 451, ok: true },
      },
      { ...metrics, metadata: { model: 'gpt-5.1-codex' } },
      { ...metrics, session_id: '01a22036-310c-7251-94f9-f09d6e64284f' },
    ],
  ],
  [
    'langchain-openinference-4.1.1',
    'traces',
    [{ event_type: 'tool_call', metadata: { toolName: 'look-up', ok: true } }, metrics, metrics],
  ],
  [
    'langchain-openllmetry-0.27.0',
    'traces',
    [{ event_type: 'tool_call', metadata: { toolName: 'DynamicStructuredTool', ok: true } }, metrics, metrics],
  ],
])('what %s sends as %s arrives as calls and tokens, without content', async (name, signal, expected) => {
  await using service = await openTestService()
  const { key } = await service.createKey('agent', ['bot'])
  const payload = readFileSync(join(import.meta.dirname, 'recorded', `${name}-${signal}.bin`))
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/x-protobuf' }
  // Exporters repeat requests.
  for (let count = 0; count < 2; count++) {
    const reply = await service.app.inject({ method: 'POST', url: `/v1/${signal}`, headers, payload })
    expect([reply.statusCode, reply.rawPayload.length]).toEqual([200, 0])
  }
  const { body } = await service.call<{ events: EventRow[] }>('GET', '/api/events')
  const found = body.events.filter(({ by_service }) => !by_service)
  expect(found.toSorted((one, other) => (one.event_type < other.event_type ? 1 : -1))).toMatchObject(expected)
  expect(JSON.stringify(found)).not.toMatch(/4711|echo hi|say hi/)
})
