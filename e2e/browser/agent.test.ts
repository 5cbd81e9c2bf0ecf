import { expect, test } from 'vitest'
import { anEvent, createKeyDecoy, newInstance, postEvent, unique } from '../fleet.ts'
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
  await usual
    .getByText(
      /^learning: 13 of 100 samples, and at least until (today|tomorrow) \d\d:\d\d; meanwhile only very large deviations are reported$/,
    )
    .first()
    .waitFor()
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
  await sessions.getByText('behaves unusually').waitFor()
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

// The timeline drew the 200 events that were loaded, and an hour with more looked empty.
test('the timeline counts all events of the range, and the list shows those of the range that is open', async () => {
  const { service } = screens
  const id = await newInstance(service)
  const batch = (count: number, fields: object) => ({
    body: Array.from({ length: count }, (_, index) => anEvent({ instance_id: id, description: `${index}`, ...fields })),
  })
  const stored = [
    await service.call('POST', '/api/events/batch', batch(3, { severity: 'breach', event_type: 'the_first' })),
    await service.call('POST', '/api/events/batch', batch(1_000, {})),
    await service.call('POST', '/api/events/batch', batch(250, { severity: 'warning' })),
  ]
  for (const { body, text } of stored) expect(body, text).toMatchObject({ ok: true })
  const page = await screens.signedIn({ at: `/fleet/${id}` })
  await page.getByRole('img', { name: /^Timeline: .*, 3 breach, 0 critical, 250 warning, 1000 info, / }).waitFor()
  const events = page.getByRole('region', { name: 'Events', exact: true })
  await events.getByText('The newest 100 of 1,253 events in the last hour.').waitFor()
  expect(await events.getByRole('listitem').count()).toBe(100)
  expect(await events.getByText('the_first').count()).toBe(0)
  const older = events.getByRole('button', { name: 'Show older events' })
  for (const shown of [300, 500, 700, 900, 1_100]) {
    await older.click()
    await events.getByText(`The newest ${shown.toLocaleString('en')} of 1,253 events`).waitFor()
  }
  await older.click()
  await events.getByText('the_first').nth(2).waitFor()
  await older.waitFor({ state: 'detached' })
  expect(await events.getByRole('listitem').count()).toBe(1_253)
  await page.getByRole('button', { name: '6 h', exact: true }).click()
  await events.getByText('of the last 6 hours, newest first').waitFor()
  const link = await events.getByRole('link', { name: 'Open in events' }).getAttribute('href')
  expect(link).toBe(`/events?instance_id=${id}&last=6h`)
})

test('an agent that does not exist is said to be missing, with the command in code', async () => {
  const page = await screens.signedIn({ at: '/fleet/nope' })
  await page.getByRole('heading', { name: 'Agent not found' }).waitFor()
  const fault = page.getByRole('main').getByRole('alert')
  expect(await fault.getByRole('code').textContent()).toBe('wardline instances')
  expect(await page.getByRole('main').textContent()).not.toContain('`')
  await page.getByRole('link', { name: 'Open the fleet' }).waitFor()
})

test('an agent shows what it is configured with, and that a change is an event', async () => {
  const { service } = screens
  const id = await newInstance(service)
  const sha256 = 'a1b2c3d4e5f6'.repeat(6).slice(0, 64)
  const hook = { kind: 'hook', name: 'PreToolUse: wardline-agent hook', sha256, ours: true }
  const server = {
    kind: 'server',
    name: '<b>github</b>\u202e',
    sha256,
    command: 'npx @example/github',
    version: '1.0.0',
  }
  const report = async (items: object[]) => {
    const body = { source: 'claude-code', items }
    const { status, text } = await service.call('PUT', `/api/instances/${id}/config`, { body })
    expect(status, text).toBe(200)
  }
  await report([hook, server, { kind: 'skill', name: 'deploy', sha256 }])
  const page = await screens.signedIn({ at: `/fleet/${id}` })
  const shown = page.getByRole('region', { name: 'Configuration: claude-code' })
  await shown.getByRole('row', { name: /^Wardline's hook PreToolUse: wardline-agent hook/ }).waitFor()
  await shown.getByRole('row', { name: /github.* 1\.0\.0 npx @example\/github a1b2c3d4e5f6/ }).waitFor()
  expect(await page.locator('main b b').count()).toBe(0)
  const other = await newInstance(service)
  await shown.getByRole('link', { name: /github/ }).click()
  await page.getByText('Tool server <b>github').waitFor()
  await page.getByRole('link', { name: id }).waitFor()
  expect(await page.getByRole('link', { name: other }).count()).toBe(0)
  await page.getByRole('button', { name: 'Remove this filter' }).click()
  await page.getByRole('link', { name: other }).waitFor()
  await page.getByRole('link', { name: id }).click()
  await report([{ ...hook, ours: undefined }, server])
  await shown.getByRole('link', { name: 'Open changes in events' }).click()
  await page
    .getByText("Wardline's hook PreToolUse: wardline-agent hook weakened, skill deploy removed")
    .first()
    .waitFor()
  await page.goBack()
  await shown.getByText('changed ').first().waitFor()
})

test('an agent shows its parent and its children, and the dialog says how many stop with it', async () => {
  const { service } = screens
  const id = await newInstance(service)
  const other = await newInstance(service)
  for (const [child, parent] of [
    [`${id}-a`, id],
    [`${id}-b`, `${id}-a`],
  ]) {
    const body = { instance_id: child, name: child, parent_instance_id: parent }
    expect((await service.call('POST', '/api/heartbeat', { body })).status).toBe(200)
  }
  const page = await screens.signedIn({ at: `/fleet/${id}` })
  await page.getByRole('main').getByRole('button', { name: 'Suspend' }).first().click()
  await page.getByText('Agents that it started: 2').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('link', { name: 'Children: 1' }).click()
  await page.getByText(`Children of ${id}`).waitFor()
  await page.getByRole('link', { name: `${id}-a` }).waitFor()
  expect(await page.getByRole('link', { name: other }).count()).toBe(0)
  await page.getByRole('link', { name: `${id}-a` }).click()
  await page.getByText('Child of').waitFor()
  await page.getByRole('link', { name: id, exact: true }).waitFor()
})

test('the page of an agent begins with its note, as plain text, which operators change and viewers only read', async () => {
  const { service } = screens
  const id = await newInstance(service)
  const hostile = '<b>Call</b> <img src=x onerror="document.title=1"> Ada\u202e first.\nThen suspend.'
  const page = await screens.signedIn({ at: `/fleet/${id}` })
  const note = page.getByRole('region', { name: 'Note' })
  const write = async (button: string, text: string) => {
    await note.getByRole('button', { name: button }).click()
    const dialog = page.getByRole('dialog', { name: `Note on ${id}` })
    await dialog.getByLabel('What people should know about this agent').fill(text)
    await dialog.getByRole('button', { name: 'Save note' }).click()
    await dialog.waitFor({ state: 'detached' })
  }
  await write('Add note…', hostile)
  await note.getByText('<b>Call</b>').waitFor()
  await note.getByText('WARDLINE_API_KEY').waitFor()
  expect(await note.locator('b, img').count()).toBe(0)
  const { body } = await service.call('POST', '/api/keys', { body: { name: unique('viewer'), scope: 'viewer' } })
  const reader = await screens.signedIn({ at: `/fleet/${id}`, key: (body as { key: string }).key })
  const shown = reader.getByRole('region', { name: 'Note' })
  await shown.getByText('<b>Call</b>').waitFor()
  expect(await shown.getByRole('button').count()).toBe(0)
  await write('Edit note…', '')
  await page.getByText('Note removed.').first().waitFor()
  await note.getByRole('button', { name: 'Add note…' }).waitFor()
})
