import { beforeAll, describe, expect, test } from 'vitest'
import { createKey, newInstance, unique } from '../fleet.ts'
import { isExternal, until } from '../service.ts'
import { nowhereYet, useScreens } from './browser.ts'

const screens = useScreens()
const tag = unique('group')

interface Detail {
  operator_tags: string[]
  agent_tags: string[]
}

beforeAll(async () => {
  const { service } = screens
  if (isExternal || !service) return
  const beat = (instance_id: string, body: object) =>
    service.call('POST', '/api/heartbeat', { body: { instance_id, name: instance_id, control_version: 0, ...body } })
  await beat('row-1', { version: '4.2.0', fail_mode: 'closed', tags: ['env:production', tag] })
  await beat('row-2', { version: '4.3.0', fail_mode: 'open', tags: ['env:staging', tag] })
  await beat('row-3', { tags: ['env:staging'] })
})

const operatorTags = async (id: string) =>
  (await screens.service.call<Detail>('GET', `/api/instances/${id}`)).body.operator_tags

describe('a row of the fleet', () => {
  test('says version, fail mode and the control version that was applied, without asking for details', async () => {
    const page = await screens.signedIn({ at: nowhereYet, width: 1440 })
    const asked: string[] = []
    page.on('request', (request) => asked.push(new URL(request.url()).pathname))
    await page.goto('/fleet')
    const row = page.getByRole('row').filter({ hasText: 'row-1' })
    for (const text of ['4.2.0', 'closed', 'v0']) await row.getByText(text, { exact: true }).waitFor()
    await screens.service.call('POST', '/api/kill/row-1', { body: { reason: 'as a test' } })
    await row.getByText('suspended, not confirmed').waitFor()
    await row.getByText('v0 of 1').waitFor()
    await screens.service.call('POST', '/api/instances/row-1/ack', { body: { version: 1 } })
    await row.getByText(/^confirmed after/).waitFor()
    await screens.service.call('POST', '/api/resume/row-1')
    expect(asked.filter((path) => /^\/api\/instances\/[^/]+$/.test(path))).toEqual([])
  })

  test('has the heartbeats and calls of the last hour, asked for the rows in view at once', async () => {
    const page = await screens.signedIn({ at: nowhereYet, width: 1440 })
    const asked: URL[] = []
    page.on('request', (request) => asked.push(new URL(request.url())))
    await page.goto('/fleet')
    const row = page.getByRole('row').filter({ hasText: 'row-2' })
    await row.getByRole('img', { name: /^Heartbeats in the last hour: \d+, expected: \d+$/ }).waitFor()
    await row.getByRole('img', { name: /^Tool calls in the last hour: 0/ }).waitFor()
    const hours = asked.filter(({ searchParams }) => searchParams.get('include') === 'hour')
    expect(hours).toHaveLength(1)
    expect(hours[0]!.searchParams.get('ids')).toContain('row-3')
  })
})

test('the list is filtered by what a suspension can do', async () => {
  const { service } = screens
  const key = await createKey(service, { scope: 'agent', instances: ['row-held'], supervises: true })
  const supervisor = { processes: 2, isolated: false }
  await service.call('POST', '/api/heartbeat', { key, body: { instance_id: 'row-held', name: 'Held', supervisor } })
  const page = await screens.signedIn({ at: '/fleet' })
  const row = (id: string) => page.getByRole('row').filter({ hasText: id })
  await row('row-held').waitFor()
  await page.getByRole('button', { name: /^Can only be asked/ }).click()
  await page.waitForURL('**/fleet?status=asked')
  await row('row-held').waitFor({ state: 'detached' })
  await row('row-3').waitFor()
})

test('the tool servers of the fleet show who runs which in which version, and lead to these agents', async () => {
  const { service } = screens
  const name = unique('server')
  const ids = [await newInstance(service), await newInstance(service), await newInstance(service)]
  const sha256 = 'a'.repeat(64)
  for (const [index, id] of ids.entries()) {
    const version = index < 2 ? '1.0.0' : '2.0.0'
    const items = [{ kind: 'server', name, sha256, command: 'npx @example/db', version }]
    await service.call('PUT', `/api/instances/${id}/config`, { body: { source: 'claude-code', items } })
  }
  const other = await newInstance(service)
  const page = await screens.signedIn({ at: '/fleet' })
  const asked: URL[] = []
  page.on('request', (request) => asked.push(new URL(request.url())))
  await page.getByRole('tab', { name: 'Tool servers' }).click()
  await page.waitForURL('**/fleet?tab=servers')
  const row = page.getByRole('row').filter({ hasText: name })
  await row.getByText('1.0.0 · npx @example/db · 2 agents').waitFor()
  await row.getByText('2.0.0 · npx @example/db · 1 agent').waitFor()
  await row.getByRole('link', { name }).click()
  await page.waitForURL(`**/fleet?server=${name}`)
  for (const id of ids) await page.getByRole('link', { name: id }).waitFor()
  expect(await page.getByRole('link', { name: other }).count()).toBe(0)
  // The service filters: only the agents that match are read.
  expect(
    asked.filter(({ pathname, searchParams }) => pathname === '/api/fleet' && searchParams.has('server')),
  ).not.toEqual([])
})

describe('groups', () => {
  test('by a tag are collapsed with the keyboard, and stand in the address', async () => {
    const page = await screens.signedIn({ at: '/fleet' })
    await page.getByLabel('Group by').selectOption('env')
    await page.waitForURL('**/fleet?group=env')
    await page.getByLabel('Group by').blur()
    await page.getByRole('button', { name: /production/ }).waitFor()
    await page.getByRole('link', { name: 'row-1' }).waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'row-1' }).waitFor({ state: 'detached' })
    await page.reload()
    await page.getByRole('button', { name: /production/, expanded: false }).waitFor()
    await page.getByRole('link', { name: 'row-2' }).waitFor()
    expect(await page.getByRole('link', { name: 'row-1' }).count()).toBe(0)
    await page.getByLabel('Select all in staging').check()
    await page.getByText('2 selected').waitFor()
  })
})

describe('tags', () => {
  test('are set for many at once, and what the agent says of itself stays', async () => {
    const added = unique('watched')
    const page = await screens.signedIn({ at: `/fleet?q=${tag}` })
    await page.getByLabel('Select all 2 agents shown').check()
    await page.getByRole('button', { name: 'Tags…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Add tags, separated by commas').fill(`${added}, second:tag`)
    await dialog.getByRole('button', { name: 'env:staging' }).click()
    await dialog.getByRole('button', { name: 'Set tags' }).click()
    await page.getByText('Tags set for 2 agents. 1 agent still reports a removed tag in heartbeats.').waitFor()
    for (const id of ['row-1', 'row-2']) expect(await operatorTags(id)).toEqual(['second:tag', added].sort())
    await page.getByLabel('Filter by id').fill(added)
    await until(
      'the filter by a new tag',
      () => page.getByRole('rowgroup').getByRole('row').count(),
      (count) => count === 2,
      30_000,
    )
  })

  test('that the service refuses are named with its sentence, and nothing is set', async () => {
    const id = await newInstance(screens.service)
    const page = await screens.signedIn({ at: `/fleet?q=${id}` })
    await page.getByLabel(`Select ${id}`).check()
    await page.getByRole('button', { name: 'Tags…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Add tags, separated by commas').fill('<img/src=x/onerror=alert(1)>')
    await dialog.getByRole('button', { name: 'Set tags' }).click()
    await dialog.getByText('Tags set for 0 of 1 agent.').waitFor()
    await dialog.getByText(/may contain only lower-case letters/).waitFor()
    expect(await operatorTags(id)).toEqual([])
  })
})

describe('saved views', () => {
  const hostile = '"><img src=x onerror=alert(1)>\u202Ecode'

  test('keep filter and groups under a name, which leads back there', async () => {
    const page = await screens.signedIn({ at: `/fleet?q=${tag}&group=env` })
    await page.getByRole('button', { name: 'Views' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Save current filters as').fill(hostile)
    await dialog.getByRole('button', { name: 'Save view' }).click()
    await page.waitForURL(/view=/)
    const { searchParams } = new URL(page.url())
    expect([searchParams.get('q'), searchParams.get('group')]).toEqual([tag, 'env'])
    await page.getByRole('button', { name: /^View: / }).waitFor()
    // The name was chosen by another person.
    await page.getByText('U+202E').first().waitFor()
    await page.getByLabel('Filter by id').fill('row')
    await page.getByRole('button', { name: /\(changed\)$/ }).waitFor()
    await page.goto(`/fleet?view=${searchParams.get('view')}`)
    await page.waitForURL((url) => url.searchParams.get('group') === 'env')
    await page.getByRole('button', { name: /^View: / }).click()
    await dialog.getByRole('button', { name: /^Delete view/ }).click()
    await dialog.getByText('No saved views.').waitFor()
    expect(await page.locator('img').count()).toBe(0)
  })
})
