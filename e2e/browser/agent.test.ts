import { expect, test } from 'vitest'
import { createKeyDecoy, newInstance, postEvent, unique } from '../fleet.ts'
import { useScreens } from './browser.ts'

const screens = useScreens()

test('the page of an agent has its figures, sessions, decoys and tags, on one axis and in sentences', async () => {
  const { service } = screens
  const id = await newInstance(service)
  const session = unique('session')
  const report = (value: number) =>
    postEvent(service, {
      event_type: 'session_metrics',
      description: JSON.stringify({ shell_exec_count: value, '<b>bold</b>': 1 }),
      instance_id: id,
      session_id: session,
    })
  for (let index = 0; index < 12; index++) await report(5 + (index % 2))
  await report(500)
  await postEvent(service, {
    event_type: 'tool_call',
    instance_id: id,
    session_id: session,
    metadata: { toolName: 'web-search' },
  })
  const { key } = await createKeyDecoy(service, id)
  await service.call('POST', '/api/honeypots/check/key', { body: { key, meta: { instance_id: id } } })
  const page = await screens.signedIn({ at: `/fleet/${id}` })
  const unusual = page.getByRole('region', { name: 'Anomalies' })
  await unusual.getByRole('link', { name: 'shell_exec_count is 500; its first 12 samples reached 6' }).waitFor()
  const usual = page.getByRole('region', { name: 'Baselines' })
  await usual.getByRole('img', { name: /^Samples; / }).waitFor()
  await usual.getByRole('button', { name: 'Table' }).click()
  await usual.getByRole('cell', { name: '500' }).waitFor()
  await usual.getByRole('button', { name: 'Accept as normal' }).click()
  await usual.getByText(': new level accepted').waitFor()
  await usual.getByRole('button', { name: 'Reset…' }).first().click()
  await page.getByRole('dialog', { name: 'Reset baseline' }).getByRole('button', { name: 'Cancel' }).click()
  await page
    .getByRole('img', {
      name: /^Timeline: \d+ of \d+ heartbeats, \d+ tool calls, .* 13 values of shell_exec_count, not suspended$/,
    })
    .waitFor()
  await page.getByLabel('Metric').selectOption('<b>bold</b>')
  await page.waitForURL(/metric=/)
  const sessions = page.getByRole('region', { name: 'Sessions' })
  await sessions.getByText('web-search 1').waitFor()
  await sessions.getByText('anomaly_detected').waitFor()
  await page.getByRole('region', { name: 'Decoys' }).getByRole('cell', { name: '1', exact: true }).waitFor()
  await page.getByRole('button', { name: 'Add tags…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Add tags, separated by commas').fill('watched')
  await dialog.getByRole('button', { name: 'Set tags' }).click()
  await page.getByText('Tags set for 1 agent.').first().waitFor()
  await dialog.waitFor({ state: 'detached' })
  await page.locator('main').getByText('watched').waitFor()
  await page.getByRole('region', { name: 'Timeline' }).getByRole('button', { name: 'Table' }).click()
  await page.getByRole('group', { name: 'Heartbeats, events and tool calls' }).waitFor()
  await page.keyboard.press('s')
  await page.getByRole('heading', { name: `Suspend ${id}` }).waitFor()
  expect(await page.locator('main b b').count()).toBe(0)
})
