import { expect, test } from 'vitest'
import { createKey, unique } from '../fleet.ts'
import { settled, useScreens } from './browser.ts'

const screens = useScreens()

const textOf = (title: string, further = '') => `# Ours
title: ${title}
mode: observe
rules:
  - title: Volumes stay
    decision: deny
    match: { tool: volume_delete }
    cases:
      match: [{ tool: volume_delete, args: {} }]
      no_match: [{ tool: volume_list, args: {} }]
  - title: Mail is asked
    decision: ask
    match: { tool: send_email }
${further}`

async function createPolicy(title: string): Promise<string> {
  const body = { policy: textOf(title) }
  const { status, text, body: stored } = await screens.service.call<{ id: string }>('POST', '/api/policies', { body })
  expect(status, text).toBe(201)
  return stored.id
}
const stateOf = async (id: string) =>
  (await screens.service.call<{ mode: string; version: number }>('GET', `/api/policies/${id}`)).body

test('writes a policy that is checked at its lines, saves it, enforces it after a dialog, and deletes it', async () => {
  const title = unique('written')
  const page = await screens.signedIn({ at: '/policies' })
  await page.getByRole('button', { name: /^New policy/ }).click()
  await page.waitForURL('**/policies/new')
  // The template is a policy that can be stored as it is.
  await page.getByText('2 rules, no errors').waitFor()
  const field = page.getByLabel('Text of the policy')
  const save = page.getByRole('button', { name: 'Save in mode observe' })
  await field.fill(textOf(title).replace('decision: deny', 'decision: refuse'))
  await page.getByText('1 error').waitFor()
  expect(await save.isDisabled()).toBe(true)
  await page
    .getByRole('list', { name: 'Errors' })
    .getByRole('button', { name: /^Line 6, column/ })
    .click()
  const caret = (await page.evaluate(
    'document.activeElement.value.slice(0, document.activeElement.selectionStart)',
  )) as string
  expect(caret.split('\n')).toHaveLength(6)
  // A case that does not hold is a fault too.
  await field.fill(textOf(title).replace('match: [{ tool: volume_delete', 'match: [{ tool: volume_remove'))
  await page.getByText('is a call that does not match the rule').waitFor()
  expect(await save.isDisabled()).toBe(true)
  await field.fill(textOf(title))
  await page.getByText('2 rules, no errors').waitFor()
  await save.click()
  await page.waitForURL(/\/policies\/[0-9a-f-]{36}$/)
  const id = page.url().slice(-36)
  const rules = page.getByRole('region', { name: 'Rules' })
  await rules.getByText('Volumes stay').waitFor()

  const mode = page.getByRole('group', { name: 'Mode' })
  await mode.getByRole('button', { name: 'Enforce…' }).click()
  const dialog = page.getByRole('dialog', { name: `Enforce ${title}?` })
  await dialog.getByText('1 rule denies, 1 asks').waitFor()
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  expect((await stateOf(id)).mode).toBe('observe')
  await mode.getByRole('button', { name: 'Enforce…' }).click()
  await dialog.getByRole('button', { name: 'Enforce', exact: true }).click()
  await page.getByRole('button', { name: 'Enforce', pressed: true }).waitFor()
  expect((await stateOf(id)).mode).toBe('enforce')

  await page.getByRole('button', { name: 'Delete…' }).click()
  await page.getByRole('button', { name: 'Delete policy' }).click()
  await page.waitForURL(/\/policies$/)
  expect((await screens.service.call('GET', `/api/policies/${id}`)).status).toBe(404)
})

test('saves another version, shows an earlier one, and asks before a text that enforces', async () => {
  const title = unique('versions')
  const id = await createPolicy(title)
  const page = await screens.signedIn({ at: `/policies/${id}` })
  const field = page.getByLabel('Text of the policy')
  await field.fill(textOf(title, 'flow: strict\n'))
  await page.getByRole('button', { name: 'Save as version 2' }).click()
  const versions = page.getByRole('region', { name: 'Versions' })
  await versions.getByRole('link', { name: 'v2' }).waitFor()
  await versions.getByRole('link', { name: 'v1' }).click()
  await page.waitForURL('**version=1')
  await page.getByRole('button', { name: 'Edit this text' }).click()
  await page.getByRole('button', { name: 'Save as version 3' }).waitFor()
  await page.getByRole('button', { name: 'Discard changes' }).click()
  await field.fill(textOf(title, 'flow: strict\n').replace('mode: observe', 'mode: enforce'))
  await page.getByText('The text sets mode enforce: saving switches the policy.').waitFor()
  await page.getByRole('button', { name: 'Save as version 3' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
  expect(await stateOf(id)).toMatchObject({ mode: 'observe', version: 2 })
  await page.getByRole('button', { name: 'Save as version 3' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Enforce', exact: true }).click()
  await page.getByRole('button', { name: 'Enforce', pressed: true }).waitFor()
  expect(await stateOf(id)).toMatchObject({ mode: 'enforce', version: 3 })
})

test('shows readers policies that they cannot change', async () => {
  const title = unique('read')
  const id = await createPolicy(title)
  const key = await createKey(screens.service, { scope: 'viewer' })
  const page = await screens.signedIn({ at: '/policy', key })
  await page.waitForURL('**/policies')
  await page.getByLabel('Filter by title, rule, tag or file').fill(title)
  await page.getByRole('link', { name: title }).click()
  await page.waitForURL(`**/policies/${id}`)
  await page.getByText('Changing policies requires a key with scope operator or admin.').waitFor()
  expect(await page.getByRole('button', { name: /^Enforce/ }).isDisabled()).toBe(true)
  expect(await page.getByRole('button', { name: 'Delete…' }).isDisabled()).toBe(true)
  await settled(page)
})
