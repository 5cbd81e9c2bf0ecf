import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import type { CallOptions } from './call.ts'
import type { Service } from './service.ts'
import type { Created, CreatedKey, Decoy, EventPage, EventRow, Severity } from './shapes.ts'

export interface EventInput {
  severity?: Severity
  source?: string
  event_type?: string
  description?: string
  instance_id?: string
  session_id?: string
  metadata?: Record<string, unknown>
  ip_address?: string
}

/** Returns a name within `[a-z0-9_-]+` that no other test, run or file uses. */
export function unique(prefix: string): string {
  return `${prefix}-${randomUUID().slice(0, 13)}`
}

export function anEvent(
  overrides: EventInput = {},
): Required<Pick<EventInput, 'severity' | 'source' | 'event_type' | 'description'>> & EventInput {
  return { severity: 'info', source: 'e2e', event_type: 'policy_note', description: unique('event'), ...overrides }
}

/** Stores an event and returns its id. */
export async function postEvent(
  service: Service,
  overrides: EventInput = {},
  options: CallOptions = {},
): Promise<string> {
  const answer = await service.call<Created>('POST', '/api/events', { body: anEvent(overrides), ...options })
  expect(answer, answer.text).toMatchObject({ status: 201 })
  return answer.body.id
}

export async function beat(service: Service, instanceId: string, options: CallOptions = {}): Promise<void> {
  const body = { instance_id: instanceId, name: `Agent ${instanceId}` }
  const send = () => service.call('POST', '/api/heartbeat', { body, ...options })
  let answer = await send()
  // A database server on a busy machine may respond too late, especially over its first connections.
  for (let retries = 0; answer.headers['x-error-code'] === 'database' && retries < 10; retries++) answer = await send()
  expect(answer, answer.text).toMatchObject({ status: 200 })
}

/** Registers a new instance by its first heartbeat. */
export async function newInstance(service: Service, prefix = 'agent'): Promise<string> {
  const instanceId = unique(prefix)
  await beat(service, instanceId)
  return instanceId
}

/** Returns all stored events, newest first. */
export async function allEvents(service: Service, pageSize = 1000): Promise<EventRow[]> {
  const rows: EventRow[] = []
  let before = ''
  for (;;) {
    const page = await service.call<EventPage>('GET', `/api/events?limit=${pageSize}${before}`)
    expect(page, page.text).toMatchObject({ status: 200 })
    rows.push(...page.body.events)
    if (page.body.next === null) return rows
    before = `&before=${encodeURIComponent(page.body.next)}`
  }
}

/** Returns the stored row with an id. */
export async function storedEvent(service: Service, id: string): Promise<EventRow> {
  const rows = (await allEvents(service)).filter((row) => row.id === id)
  expect(rows, `rows with id ${id}`).toHaveLength(1)
  return rows[0]!
}

export interface KeyInput {
  scope: 'agent' | 'viewer' | 'operator' | 'admin'
  name?: string
  instances?: string[]
  quotas?: Record<string, number | null>
  supervises?: boolean
  tags_scope?: string[]
}

export async function createKey(service: Service, input: KeyInput): Promise<string> {
  const answer = await service.call<CreatedKey>('POST', '/api/keys', { body: { name: unique('key'), ...input } })
  expect(answer, answer.text).toMatchObject({ status: 201, body: { ok: true, id: expect.any(String) } })
  return answer.body.key
}

export async function createKeyDecoy(
  service: Service,
  instanceId: string,
  keyType = 'openai',
  label?: string,
): Promise<Required<Pick<Decoy, 'key'>> & Decoy> {
  const body = { instanceId, type: 'api_key', keyType, label }
  const answer = await service.call<Decoy>('POST', '/api/honeypots', { body })
  expect(answer, answer.text).toMatchObject({ status: 201, body: { key: expect.any(String) } })
  return { ...answer.body, key: answer.body.key ?? '' }
}

export async function createPathDecoy(
  service: Service,
  instanceId: string,
  path: string,
  label?: string,
): Promise<Decoy> {
  const body = { instanceId, type: 'file_path', path, label }
  const answer = await service.call<Decoy>('POST', '/api/honeypots', { body })
  expect(answer, answer.text).toMatchObject({ status: 201 })
  return answer.body
}
