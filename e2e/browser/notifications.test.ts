import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { newInstance, postEvent, unique } from '../fleet.ts'
import { useScreens } from './browser.ts'

const screens = useScreens()

interface Shown {
  title: string
  body: string
}
const shown = (page: Page) => page.evaluate<Shown[]>('window.shown')

/** A page behind another window, whose clock can be advanced, and which keeps what the system would show. */
async function watched(): Promise<Page> {
  const page = await screens.signedIn()
  await page.context().grantPermissions(['notifications'])
  await page.clock.install()
  await page.addInitScript(`
    window.shown = []
    document.hasFocus = () => false
    window.Notification = class {
      static permission = 'granted'
      static requestPermission = async () => 'granted'
      constructor(title, { body }) { window.shown.push({ title, body }) }
      close() {}
    }`)
  await page.goto('/account')
  return page
}

async function choose(page: Page, tags: string): Promise<void> {
  await page.getByRole('region', { name: 'Browser notifications' }).getByRole('button', { name: 'Change…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Browser notifications' })
  await dialog.getByLabel('Alerts assigned to me').check()
  await dialog.getByLabel('Alerts on agents with one of these tags, separated by commas').fill(tags)
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.waitFor({ state: 'detached' })
}

/** Lets the page look for alerts once. */
async function look(page: Page): Promise<void> {
  const answer = page.waitForResponse((response) => /\/api\/alerts\?.*limit=50/.test(response.url()))
  await page.clock.runFor(16_000)
  await answer
}

const report = (instance_id: string, description: string) =>
  postEvent(screens.service, { severity: 'critical', event_type: 'policy_violation', instance_id, description })

// An agent that gives itself the tag must not call people away from others.
test('a browser notifies of alerts assigned to the person, and on agents with tags of operators alone, in plain text', async () => {
  const { service } = screens
  const tag = unique('team').toLowerCase()
  const [tagged, pretender, other] = [
    await newInstance(service),
    await newInstance(service),
    await newInstance(service),
  ]
  await service.call('PUT', `/api/instances/${tagged}/tags`, { body: { tags: [tag] } })
  await service.call('POST', '/api/heartbeat', { body: { instance_id: pretender, name: pretender, tags: [tag] } })
  await report(tagged, 'before')
  const page = await watched()
  await choose(page, tag)
  await page.getByText(`alerts assigned to you, and of alerts on agents with the tag ${tag}`).waitFor()
  await look(page)
  await look(page)
  expect(await shown(page)).toEqual([])

  const hostile = `<img src=x onerror=alert(1)>\u202e${'x'.repeat(500)}`
  await report(pretender, 'by a pretender')
  const id = await report(other, 'to be assigned')
  await report(tagged, hostile)
  await service.call('PATCH', `/api/alerts/${id}`, { body: { assignee: 'me' } })
  await look(page)
  await expect.poll(async () => (await shown(page)).length).toBe(2)
  await look(page)
  const all = await shown(page)
  expect(all.map(({ title }) => title).sort()).toEqual(
    [
      `${tagged}: a policy violation, reported by another source`,
      `${other}: a policy violation, reported by another source`,
    ].sort(),
  )
  const { body } = all.find(({ title }) => title.startsWith(tagged))!
  expect(body).toMatch(/^<img src=x onerror=alert\(1\)>U\+202Ex+…$/)
  expect(body).toHaveLength(121)
})
