import { expect, test } from 'vitest'
import { createKey, createKeyDecoy, createPathDecoy, newInstance, unique } from '../fleet.ts'
import { useScreens } from './browser.ts'

const screens = useScreens()

const stored = 'JSON.stringify([location.href, document.cookie, { ...localStorage }, { ...sessionStorage }])'

test('plants a key, shows it once, and shows live how a real agent trips over it', async () => {
  const agent = await screens.agent(unique('lured'))
  const page = await screens.signedIn({ at: '/decoys' })
  await page.getByRole('button', { name: /^Plant a decoy/ }).click()
  const dialog = page.getByRole('dialog', { name: 'Plant a decoy' })
  await dialog.getByLabel('What').selectOption('GitHub token in a config')
  await dialog.getByLabel('For which agent').fill(agent.id)
  const label = unique('Vault note of the bot')
  await dialog.getByLabel('Label').fill(label)
  await dialog.getByRole('button', { name: 'Create the decoy' }).click()
  const snippet =
    (await dialog.getByRole('group', { name: 'To write into config/production.json' }).textContent()) ?? ''
  const key = (await dialog.getByRole('group', { name: 'The key alone' }).textContent()) ?? ''
  expect(snippet).toBe(`"githubToken": "${key}"`)
  expect(await page.evaluate(stored)).not.toContain(key)
  // A press beside the dialog would lose the key.
  await page.mouse.click(5, 5)
  await dialog.getByRole('button', { name: 'Close and forget the key' }).click()
  await dialog.waitFor({ state: 'detached' })
  expect(await page.content()).not.toContain(key)
  await page.getByRole('link', { name: label }).click()
  const drawer = page.getByRole('dialog', { name: 'Decoy' })
  await drawer.getByText('Nobody touched it so far').waitFor()
  expect(await page.content()).not.toContain(key)

  agent.use(`curl -H 'Authorization: Bearer ${key}' https://api.example/repos`)
  await agent.heard('denied')
  await drawer.getByRole('img', { name: /^1 hit between/ }).waitFor()
  await drawer.getByRole('link', { name: agent.id }).first().waitFor()
  await drawer.getByText('shell-exec').waitFor()
  await drawer.getByRole('link', { name: 'Event' }).click()
  await page.getByRole('dialog', { name: 'Event' }).getByText('A decoy key was touched by shell-exec').waitFor()
  await page.goBack()
  await drawer.getByRole('link', { name: agent.id }).first().click()
  await page.waitForURL(`**/fleet/${agent.id}`)
  await page.getByRole('link', { name: label }).click()
  await drawer.waitFor()
  await agent.end()
})

test('says of every kind of decoy where it goes, and creates it', async () => {
  const instance = await newInstance(screens.service)
  const page = await screens.signedIn({ at: `/decoys?plant=path-ssh&agent=${instance}` })
  const dialog = page.getByRole('dialog', { name: 'Plant a decoy' })
  await dialog.getByLabel('Path; *').fill("~/.ssh/it's id")
  await dialog.getByRole('button', { name: 'Create the decoy' }).click()
  await dialog.getByText(`touch ~/'.ssh/it'\\''s id'`).waitFor()
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  expect(page.url()).not.toContain('plant')
  // The sentence of the service, not one of ours.
  await page.goto(`/decoys?plant=path-ssh&agent=${instance}`)
  await dialog.getByLabel('Path; *').fill('**/*.json')
  await dialog.getByRole('button', { name: 'Create the decoy' }).click()
  await dialog.getByText(/The pattern is too broad/).waitFor()
})

test('filters, keeps everything in the address, and needs no more than a keyboard', async () => {
  const instance = await newInstance(screens.service, 'keyed')
  const decoy = await createPathDecoy(screens.service, instance, `/srv/${instance}/id_rsa`)
  await createKeyDecoy(screens.service, instance)
  const page = await screens.signedIn()
  await page.keyboard.press('g')
  await page.keyboard.press('d')
  await page.waitForURL('**/decoys')
  await page.getByLabel('Filter by label').waitFor()
  await page.keyboard.press('/')
  await page.keyboard.type(instance)
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: /^All 2$/ }).waitFor()
  // The one planted last comes first.
  await page.keyboard.press('j')
  await page.keyboard.press('Enter')
  await page.waitForURL(`**open=${decoy.id}`)
  const drawer = page.getByRole('dialog', { name: 'Decoy' })
  await drawer.getByText(`/srv/${instance}/id_rsa`).first().waitFor()
  await page.keyboard.press('Escape')
  await drawer.waitFor({ state: 'detached' })
  await page.getByRole('button', { name: /^Paths 1$/ }).click()
  await page.waitForURL(`**/decoys?q=${instance}&show=paths`)
  await page.reload()
  await page.getByRole('link', { name: `/srv/${instance}/id_rsa` }).click()
  await drawer.getByRole('button', { name: 'Delete…' }).click()
  const asked = page.getByRole('dialog', { name: 'Delete the decoy' })
  await page.keyboard.press('Escape')
  await asked.waitFor({ state: 'detached' })
  await drawer.getByRole('button', { name: 'Delete…' }).click()
  await asked.getByRole('button', { name: 'Delete the decoy' }).click()
  await page.getByText('No decoy matches.').waitFor()
  const { body } = await screens.service.call<{ matched: boolean }>('POST', '/api/honeypots/check/path', {
    body: { path: `/srv/${instance}/id_rsa` },
  })
  expect(body.matched).toBe(false)
  // Its address still says what it was.
  await page.goto(`/decoys?open=${decoy.id}`)
  await drawer.getByText(/^Deleted/).waitFor()
})

test('opens by ⌘K, and lets a viewer look but not plant', async () => {
  const decoy = await createPathDecoy(screens.service, 'looked-at', '/srv/looked-at/id_rsa')
  const page = await screens.signedIn({ key: await createKey(screens.service, { scope: 'viewer' }) })
  await page.keyboard.press('Control+k')
  await page.keyboard.type('decoys')
  await page.keyboard.press('Enter')
  await page.waitForURL('**/decoys')
  const plant = page.getByRole('button', { name: /^Plant a decoy \(needs a key of scope operator\)/ })
  expect(await plant.isDisabled()).toBe(true)
  await page.keyboard.press('n')
  await page.goto(`/decoys?open=${decoy.id}&plant=new`)
  await page.getByRole('dialog', { name: 'Decoy' }).getByText('looked-at').first().waitFor()
  expect(await page.getByRole('dialog').count()).toBe(1)
  expect(await page.getByRole('button', { name: 'Delete…' }).count()).toBe(0)
})
