import { expect, test } from 'vitest'
import { createKey, unique } from '../fleet.ts'
import { until } from '../service.ts'
import { useScreens } from './browser.ts'

const screens = useScreens()

/** An agent that a hook and its telemetry speak for, and one that only telemetry shows. */
async function openAgents(): Promise<{ both: string; observed: string }> {
  const { service } = screens
  const [both, observed] = [unique('both'), unique('observed')]
  const hook = { agent_type: 'claude-code', fail_mode: 'open', control_version: 0, leaving: true }
  const beat = await service.call('POST', '/api/heartbeat', { body: { instance_id: both, name: both, ...hook } })
  expect(beat.status).toBe(200)
  for (const id of [both, observed]) {
    const key = await createKey(service, { scope: 'agent', instances: [id] })
    const attributes = { 'event.name': 'tool_result', tool_name: 'Bash', tool_use_id: `toolu-${id}` }
    const list = Object.entries(attributes).map(([name, stringValue]) => ({ key: name, value: { stringValue } }))
    const body = { resourceLogs: [{ scopeLogs: [{ logRecords: [{ attributes: list }] }] }] }
    expect((await service.call('POST', '/v1/logs', { key, body })).status).toBe(200)
  }
  // They are written within a second.
  const heardOf = async (id: string) =>
    (await service.call<{ heard_by: string[] }>('GET', `/api/instances/${id}`)).body.heard_by.join()
  await until(
    'both witnesses are heard',
    () => heardOf(both),
    (heard) => heard === 'hook,otlp',
  )
  await until(
    'telemetry is heard',
    () => heardOf(observed),
    (heard) => heard === 'otlp',
  )
  return { both, observed }
}

test('the page of an agent says by what it is heard, and the fleet is filtered by that', async () => {
  const { both, observed } = await openAgents()
  const page = await screens.signedIn({ at: '/fleet', width: 1440 })
  const row = (id: string) => page.getByRole('row').filter({ hasText: id })
  await row(both).waitFor()
  await row(observed).waitFor()
  const filter = page.getByRole('combobox').filter({ hasText: 'Heard by telemetry' })
  await filter.selectOption({ label: 'Heard by hook' })
  await page.waitForURL('**/fleet?heard=hook')
  await row(observed).waitFor({ state: 'detached' })
  await row(both).waitFor()
  await filter.selectOption({ label: 'Heard by telemetry' })
  await page.waitForURL('**/fleet?heard=otlp')
  await row(observed).waitFor()
  await row(both).waitFor()

  await page.goto(`/fleet/${both}`)
  const heard = page.getByText('Heard by:').locator('..')
  await heard.getByText(/^hook\s+since/).waitFor()
  await heard.getByText(/^telemetry\s+since/).waitFor()
})
