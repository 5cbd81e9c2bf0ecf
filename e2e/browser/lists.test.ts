import { expect, test } from 'vitest'
import { createKey, unique } from '../fleet.ts'
import { until } from '../service.ts'
import { settled, useScreens } from './browser.ts'

const screens = useScreens()

const unseen = '\u202Etxt.exe'
const markup = '"><img src=x onerror=alert(1)>'

async function createList(entries: string[], description = ''): Promise<string> {
  const name = unique('list').slice(0, 40)
  const body = { entries, version: 0, description }
  const { status, text } = await screens.service.call('PUT', `/api/lists/${name}`, { body })
  expect(status, text).toBe(200)
  return name
}
const entriesOf = async (name: string) =>
  (await screens.service.call<{ entries: string[] }>('GET', `/api/lists/${name}`)).body.entries

async function createRule(list: string, title: string): Promise<string> {
  const body = {
    title,
    severity: 'info',
    detection: { a: { 'metadata.hosts|expand': `%${list}%` }, condition: 'a' },
  }
  const answer = await screens.service.call<{ id: string }>('POST', '/api/rules', { body })
  expect(answer.status, answer.text).toBe(201)
  return answer.body.id
}

test('creates a list, fills it with many lines, filters, removes, and deletes it', async () => {
  const name = unique('made').slice(0, 40)
  const page = await screens.signedIn({ at: '/rules' })
  await page.getByRole('link', { name: 'Lists', exact: true }).click()
  await page.getByRole('button', { name: /^New list/ }).click()
  await page.getByLabel('Name').fill(name)
  await page.getByLabel('Description').fill('Ours')
  await page.getByRole('button', { name: 'Create list' }).click()
  await page.waitForURL(`**/rules/lists/${name}`)
  await page.getByText('No entries: the list matches nothing.').waitFor()

  const add = async (text: string) => {
    await page.getByRole('button', { name: 'Add entries…' }).click()
    await page.getByRole('textbox', { name: 'Entries' }).fill(text)
    await page.getByRole('button', { name: 'Add', exact: true }).click()
  }
  const many = Array.from({ length: 250 }, (_, index) => `host-${index}.example`)
  await add(`# Ours\n${many.join('\r\n')}\n\n  spaced.example  \n`)
  await page.getByText('251 entries added.').waitFor()
  await page.getByText('51 more not shown.').waitFor()
  expect(await entriesOf(name)).toEqual([...many, 'spaced.example'])
  await add('host-1.example')
  await page.getByText('Nothing changed.').waitFor()

  await page.getByLabel('Filter entries').fill('SPACED')
  await page.getByText('1 of 251 entries').waitFor()
  await page.getByRole('button', { name: 'Remove spaced.example' }).click()
  await page.getByText('No matching entries.').waitFor()
  expect(await entriesOf(name)).toEqual(many)

  await page.getByRole('button', { name: 'Delete…' }).click()
  await page.getByRole('button', { name: 'Delete list' }).click()
  await page.waitForURL(/\/rules\/lists$/)
  await page.getByText('List deleted.').waitFor()
  expect((await screens.service.call('GET', `/api/lists/${name}`)).status).toBe(404)
})

test('of two people who edit a list the second one sees why, and nothing is overwritten', async () => {
  const name = await createList(['a.example'])
  const page = await screens.signedIn({ at: `/rules/lists/${name}` })
  await page.getByRole('button', { name: 'Edit…' }).click()
  const field = page.getByRole('textbox', { name: 'Entries' })
  expect(await field.inputValue()).toBe('a.example')
  await screens.service.call('PUT', `/api/lists/${name}`, { body: { entries: ['a.example', 'b.example'], version: 1 } })
  await field.fill('c.example')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText(`The list ${name} has version 2, not 1: it was changed meanwhile, read it again.`).waitFor()
  expect(await entriesOf(name)).toEqual(['a.example', 'b.example'])
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('cell', { name: 'b.example', exact: true }).waitFor()
  await page.getByRole('button', { name: 'Edit…' }).click()
  await field.fill('a.example\nc.example')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('List saved. 1 entry added, 1 entry removed.').waitFor()
  expect(await entriesOf(name)).toEqual(['a.example', 'c.example'])
})

test('shows the rules that use a list, which then cannot be deleted, and why entries are refused', async () => {
  const name = await createList(['a.example'], 'Hosts')
  const title = unique('uses')
  const id = await createRule(name, title)
  const page = await screens.signedIn({ at: '/rules/lists' })
  await page.getByLabel('Filter by name or rule').fill(title)
  await page.getByRole('link', { name: title }).waitFor()
  expect(await page.getByRole('link', { name, exact: true }).count()).toBe(1)
  await page.getByRole('link', { name, exact: true }).click()
  const used = page.getByRole('region', { name: 'Used by' })
  expect(await used.getByRole('link', { name: title }).getAttribute('href')).toBe(`/rules/${id}`)
  expect(await page.getByRole('button', { name: 'Delete…' }).isDisabled()).toBe(true)

  await used.getByRole('link', { name: title }).click()
  await page.getByRole('link', { name, exact: true }).click()
  await page.waitForURL(`**/rules/lists/${name}`)

  const strict = {
    title: 'Strict',
    severity: 'info',
    detection: { a: { 'metadata.hosts|host|expand': `%${name}%` }, condition: 'a' },
  }
  expect((await screens.service.call('POST', '/api/rules', { body: strict })).status).toBe(201)
  await page.getByRole('button', { name: 'Add entries…' }).click()
  await page.getByRole('textbox', { name: 'Entries' }).fill('not/a/host')
  await page.getByRole('button', { name: 'Add', exact: true }).click()
  await page.getByText(/^The rule Strict uses the list and could not run with it: /).waitFor()
  expect(await entriesOf(name)).toEqual(['a.example'])
})

test('entries and descriptions of others stay text', async () => {
  const hostile = [markup, unseen, '{{7*7}}', '__proto__', '<script>alert(2)</script>', 'x'.repeat(300)]
  const name = await createList(hostile, `${unseen}${markup}`)
  for (const width of [1_440, 390]) {
    const page = await screens.signedIn({ at: `/rules/lists/${name}`, width })
    await page.getByText(markup, { exact: true }).first().waitFor()
    await settled(page)
    expect(await page.locator('main img, main script').count()).toBe(0)
    expect(await page.getByText('U+202E').count()).toBeGreaterThan(0)
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
    await page.getByRole('button', { name: 'Edit…' }).click()
    expect(await page.getByRole('textbox', { name: 'Entries' }).inputValue()).toBe(hostile.join('\n'))
    await page.getByText('Some entries contain characters that are invisible here').waitFor()
    await page.keyboard.press('Escape')
    await page.goto('/rules/lists')
    await page.getByRole('link', { name, exact: true }).waitFor()
    expect(await page.locator('main img, main script').count()).toBe(0)
  }
})

test('viewers read lists and change nothing; what another person changes appears', async () => {
  const name = await createList(['a.example'])
  const key = await createKey(screens.service, { scope: 'viewer', name: 'reads lists' })
  const page = await screens.signedIn({ at: `/rules/lists/${name}`, key })
  await page.getByRole('cell', { name: 'a.example', exact: true }).waitFor()
  for (const button of ['Add entries…', 'Edit…', 'Delete…']) {
    expect(await page.getByRole('button', { name: new RegExp(`^${button}`) }).isDisabled(), button).toBe(true)
  }
  expect(await page.getByRole('button', { name: /^Remove/ }).count()).toBe(0)
  await screens.service.call('POST', `/api/lists/${name}/entries`, { body: { add: ['b.example'] } })
  await until(
    'the new entry',
    async () => {
      await page.reload()
      await page.getByRole('cell', { name: 'a.example', exact: true }).waitFor()
      return page.getByRole('cell', { name: 'b.example', exact: true }).count()
    },
    (count) => count === 1,
  )
})
