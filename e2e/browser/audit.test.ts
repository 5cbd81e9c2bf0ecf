import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { createKey, newInstance, unique } from '../fleet.ts'
import { useScreens } from './browser.ts'

const screens = useScreens()

/** Changes tags; each change is an entry. Concurrent changes share commits. */
async function makeEntries(count: number): Promise<void> {
  const { service } = screens
  const agents = await Promise.all(Array.from({ length: 20 }, () => newInstance(service, 'audited')))
  const change = async (agent: string) => {
    for (let index = 0; index < count / agents.length; index++) {
      const { status, text } = await service.call('PUT', `/api/instances/${agent}/tags`, {
        body: { tags: [`t${index}`] },
      })
      expect(status, text).toBe(200)
    }
  }
  await Promise.all(agents.map(change))
}

/** Alters the database file like an attacker. */
function behindTheService(change: (database: DatabaseSync) => void): void {
  const database = new DatabaseSync(join(screens.service.dataDir, 'wardline.db'))
  try {
    database.exec('pragma busy_timeout = 10000')
    const guards = database.prepare(
      `select name, sql from sqlite_master where type = 'trigger' and tbl_name = 'audit_log'`,
    )
    const triggers = guards.all() as { name: string; sql: string }[]
    for (const { name } of triggers) database.exec(`drop trigger "${name}"`)
    change(database)
    for (const { sql } of triggers) database.exec(sql)
  } finally {
    database.close()
  }
}

interface Chain {
  length: number
  head_hash: string
}
const chain = async () => (await screens.service.call<Chain>('GET', '/api/audit/chain')).body

// More than one page of the API, so that a page boundary is included.
test('verifies every entry in the browser, and names the first one that was altered behind the service', async () => {
  await makeEntries(1_020)
  const page = await screens.signedIn({ at: '/audit' })
  await page.getByRole('button', { name: /^Verify in this browser/ }).click()
  await page.getByText(/^1,\d\d\d entries verified, chain intact$/).waitFor()
  const { length, head_hash } = await chain()
  await page.getByText(`${length.toLocaleString('en')} entries verified, chain intact`).waitFor()
  expect(await page.getByRole('region', { name: 'Chain' }).getByRole('status').getByRole('code').textContent()).toBe(
    head_hash,
  )

  let reason = ''
  behindTheService((database) => {
    const row = database.prepare('select after from audit_log where seq = 1010').get() as { after: string }
    reason = row.after
    database.prepare(`update audit_log set after = '{"tags":["other"]}' where seq = 1010`).run()
  })
  await page.keyboard.press('v')
  await page.getByText('Entry 1,010 does not match its hash: it was changed.').waitFor()
  await page.getByText('Everything before entry 1,010 is intact.').waitFor()
  await page.getByRole('button', { name: 'Show entry 1,010' }).click()
  await page.getByRole('dialog').getByText('"other"').waitFor()
  await page.keyboard.press('Escape')

  behindTheService((database) => {
    database.prepare('update audit_log set after = ? where seq = 1010').run(reason)
    database.exec(`create table removed as select * from audit_log where seq = ${length}`)
    database.exec(`delete from audit_log where seq = ${length}`)
  })
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.keyboard.press('v')
  await page.getByText('the tail was cut off').waitFor()
  behindTheService((database) => database.exec('insert into audit_log select * from removed; drop table removed'))
})

test('stays usable while it verifies, and stops on request', async () => {
  const page = await screens.signedIn({ at: '/audit' })
  await page.getByRole('heading', { name: 'Audit', exact: true }).waitFor()
  let goOn = () => {}
  const held = new Promise<void>((resolve) => {
    goOn = resolve
  })
  await page.route('**/api/audit?*after=*', async (route) => {
    await held
    await route.continue().catch(() => {})
  })
  await page.getByRole('button', { name: /^Verify in this browser/ }).click()
  await page.getByRole('progressbar', { name: 'Entries verified' }).waitFor()
  await page.getByRole('button', { name: 'Stop' }).click()
  await page.getByText('Not verified. Stopped.').waitFor()
  goOn()
})

test('keeps its filters and the open entry in the address, and exports what matches', async () => {
  const { service } = screens
  const agent = await newInstance(service, 'filtered')
  const reason = unique('because')
  await service.call('POST', `/api/kill/${agent}`, { body: { reason } })
  await service.call('POST', `/api/resume/${agent}`)
  const page = await screens.signedIn({ at: '/audit' })
  await page.keyboard.press('/')
  await page.getByLabel('Target').fill(agent)
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/audit?target=${agent}`)
  await page.getByText('2 shown').waitFor()
  await page.getByLabel('Action').fill('instance.suspend')
  await page.keyboard.press('Enter')
  await page.getByText('1 shown').waitFor()
  await page.getByRole('button', { name: '24 h', exact: true }).click()
  await page.waitForURL(/from=/)
  await page.getByText('1 shown').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('link', { name: new RegExp(reason) }).click()
  await page.waitForURL(/open=\d+/)
  await page.getByRole('dialog').getByText(reason).waitFor()
  // The link as sent to a colleague.
  await page.reload()
  await page.getByRole('dialog').getByText(reason).waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export' }).click(),
  ])
  const lines = readFileSync(await download.path(), 'utf8')
    .trimEnd()
    .split('\n')
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ action: 'instance.suspend', target: agent, reason }])
  await page.goto('/audit?action=nonsense')
  await page.getByRole('alert').filter({ hasText: 'action must be an action such as instance.suspend' }).waitFor()
})

test('walks through the entries by keys alone, and shows hostile reasons as text', async () => {
  const { service } = screens
  const agent = await newInstance(service, 'hostile')
  const markup = '"><img src=x onerror=alert(1)>\u202Etxt.exe'
  await service.call('POST', `/api/kill/${agent}`, { body: { reason: markup } })
  await service.call('POST', `/api/resume/${agent}`)
  const named = await service.call('POST', '/api/keys', { body: { name: markup, scope: 'viewer' } })
  expect(named.status, named.text).toBe(201)
  const page = await screens.signedIn()
  await page.keyboard.press('g')
  await page.keyboard.press('u')
  await page.waitForURL('**/audit')
  await page.getByText('U+202E').first().waitFor()
  await page.keyboard.press('Enter')
  const drawer = page.getByRole('dialog')
  // The newest entry is the sign-in of this browser.
  await drawer.getByText('session.create').waitFor()
  await page.keyboard.press('j')
  await drawer.getByText('key.create').waitFor()
  await drawer.getByText('U+202E').first().waitFor()
  await page.keyboard.press('j')
  await drawer.getByText('instance.resume').waitFor()
  await page.keyboard.press('j')
  await drawer.getByText('<img src=x onerror=alert(1)>').first().waitFor()
  await page.keyboard.press('Escape')
  await drawer.waitFor({ state: 'detached' })
  expect(await page.locator('img').count()).toBe(0)
})

test('shows on a phone what was done to whom', async () => {
  const agent = await newInstance(screens.service, 'phoned')
  await screens.service.call('POST', `/api/kill/${agent}`, { body: { reason: 'Wrong output' } })
  const page = await screens.signedIn({ at: '/audit', width: 390 })
  const entry = page.getByRole('group', { name: 'List of audit entries' }).getByRole('link').filter({ hasText: agent })
  for (const text of ['instance.suspend', agent]) await entry.getByText(text).first().waitFor()
})

test('says to others that it needs a key of scope admin', async () => {
  const page = await screens.signedIn({ at: '/audit', key: await createKey(screens.service, { scope: 'operator' }) })
  await page.getByText('The audit log requires a key with scope admin').waitFor()
})
