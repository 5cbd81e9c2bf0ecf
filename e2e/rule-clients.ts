import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import type { Call, Client } from './calling-clients.ts'
import { allEvents, createKey, unique } from './fleet.ts'
import { type Service, startService, until } from './service.ts'
import type { EventRow } from './shapes.ts'

// Calls of each real client, and rules over the events that the service stored of them.

const root = fileURLToPath(new URL('..', import.meta.url))

const folder = join(root, 'packages/server/src/features/rules/starter')
export const starters = Object.fromEntries(
  readdirSync(folder, { encoding: 'utf8' })
    .filter((file) => file.endsWith('.yml'))
    .map((file) => [file.replace('.yml', ''), readFileSync(join(folder, file), 'utf8')]),
)

export let service: Service
export let key: string

export async function startRuleService(): Promise<void> {
  service = await startService()
  key = await createKey(service, { scope: 'agent', instances: ['rules-*'] })
}

export const newInstance = () => unique('rules')

/** Has a client make calls; resolves with the events of these, oldest first. */
export async function eventsOf(client: Client, calls: Call[]): Promise<EventRow[]> {
  const instanceId = newInstance()
  await client({ service, key, instanceId }, calls)
  return stored(instanceId, 'tool_call', calls.length)
}

/** Events of a type, oldest first. */
export async function stored(instanceId: string, type: string, count: number): Promise<EventRow[]> {
  const rows = await until(
    `${count} events ${type}`,
    async () => (await allEvents(service)).filter((row) => row.instance_id === instanceId && row.event_type === type),
    (found) => found.length >= count,
  )
  return rows.sort((a, b) => a.seq - b.seq)
}

export const seconds = (count: number): string => `${count}s`
export const days = (count: number): string => `${count}d`

/** One event of a case, as the service stored it. */
export function caseEvent(row: EventRow, after = '1s') {
  const { severity, source, by_service, event_type, description, instance_id, session_id, metadata } = row
  const ip_address = row.observed_ip_address
  const fields = {
    severity,
    source,
    by_service,
    event_type,
    description,
    instance_id,
    session_id,
    ip_address,
    metadata,
  }
  return { after, ...Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null)) }
}

/** Runs the rule over the events instead of over its own tests. */
export async function fires(rule: string, events: object[]): Promise<boolean> {
  const cases = { match: [events], no_match: [[{ event_type: 'nothing_of_the_kind' }]] }
  const text = `${rule.slice(0, rule.search(/^tests:/m))}tests: ${JSON.stringify(cases)}\n`
  const answer = await service.call<{ failed: object[] }>('POST', '/api/rules/test', { body: { rule: text } })
  expect(answer, answer.text).toMatchObject({ status: 200 })
  return answer.body.failed.length === 0
}
