import { expect, test } from 'vitest'
import { createKey, newInstance, unique } from '../fleet.ts'
import { settled, useScreens } from './browser.ts'

const screens = useScreens()

const places = ['/', '/fleet', '/containments', '/events', '/decoys', '/policies', '/approvals', '/rules', '/alerts']

test('a caller limited to a team sees its agents on each screen, and nothing that is refused', async () => {
  const { service } = screens
  const team = `team:${unique('payments')}`
  const [own, other] = [await newInstance(service, 'of-team'), await newInstance(service, 'of-others')]
  for (const [id, tags] of [
    [own, [team]],
    [other, ['team:other']],
  ] as const) {
    expect((await service.call('PUT', `/api/instances/${id}/tags`, { body: { tags } })).status).toBe(200)
    const event = { severity: 'critical', source: id, instance_id: id, event_type: 'data_export', description: 'Out' }
    expect((await service.call('POST', '/api/events', { body: event })).status).toBe(201)
  }
  const key = await createKey(service, { scope: 'operator', name: unique('operator'), tags_scope: [team] })
  const page = await screens.signedIn({ key })
  await page.getByText(`only ${team}`).waitFor()
  for (const path of places) {
    await page.goto(path)
    await page.locator('h1').first().waitFor()
    await settled(page)
    const text = await page.locator('body').innerText()
    expect(text, path).not.toContain(other)
    expect(text, path).not.toMatch(/This concerns all agents|No answer from the service|Loading/)
    if (path === '/' || path === '/fleet') expect(text, path).toContain(own)
  }
  await page.goto(`/fleet/${own}`)
  await page.getByText('data_export').first().waitFor()
  await page.goto(`/fleet/${other}`)
  await page.getByText(`No instance with id ${other}`, { exact: false }).first().waitFor()
})
