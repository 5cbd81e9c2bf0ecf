import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { beforeAll, describe, expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { createPathDecoy, postEvent, unique } from '../fleet.ts'
import { isExternal } from '../service.ts'
import { nowhereYet, settled, useScreens } from './browser.ts'

const screens = useScreens({ WARDLINE_ALERT_ALLOW_CIDRS: '127.0.0.0/8' })
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

const markup = '"><img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)>{{7*7}}'
/** Right-to-left override and zero-width characters: `exe.txt` that is displayed as `txt.exe`. */
const unseen = 'safe\u202Etxt.exe\u200B\u2066'
/** Elements that exist only if markup was not escaped. */
const made = 'img, svg[onload], script:not([src])'
const long = `${'long '.repeat(190)}end`
const hostile = unique('hostile')
let decoyId = ''
let channelId = ''
let alertId = ''
let containmentId = ''
let drillId = ''
let ruleId = ''
let policyId = ''
let approvalId = ''
let loginLink = ''

beforeAll(async () => {
  const { service } = screens
  if (isExternal || !service) return
  const beat = (name: string) =>
    service.call('POST', '/api/heartbeat', { body: { instance_id: hostile, name, version: markup.slice(0, 90) } })
  expect((await beat(`${unseen}${markup}`.slice(0, 80))).status).toBe(200)
  const sha256 = 'a'.repeat(64)
  const ran = { name: `${unseen}${markup}`, version: markup.slice(0, 90), command: `${markup}${unseen}` }
  const config = { source: 'claude-code', items: [{ kind: 'server', sha256, ...ran }] }
  expect((await service.call('PUT', `/api/instances/${hostile}/config`, { body: config })).status).toBe(200)
  const name = `${unseen}${markup}`.slice(0, 80)
  // Nothing listens at this address, so errors are shown too.
  const settings = { url: 'http://127.0.0.1:1029/hook' }
  const channel = await service.call('POST', '/api/alert-channels', { body: { name, type: 'slack', settings } })
  expect(channel.status, channel.text).toBe(201)
  channelId = (channel.body as { id: string }).id
  await service.call('POST', '/api/alert-routes', { body: { name, match: {}, channels: [channelId] } })
  const ends_at = new Date(Date.now() + 3_600_000).toISOString()
  await service.call('POST', '/api/silences', {
    body: { match: { types: ['other_note'] }, reason: `${unseen}${markup}`, ends_at },
  })
  const viewer = { scope: 'viewer', name: `${unseen}${markup}`.slice(0, 100) }
  const { key } = (await service.call<{ key: string }>('POST', '/api/keys', { body: viewer })).body
  loginLink = (await service.call<{ url: string }>('POST', '/api/login-links', { key })).body.url
  const path = `/srv/${unseen}/${markup.replaceAll(/[*?]/g, '')}`
  decoyId = (await createPathDecoy(service, hostile, path, `${unseen}${markup}`)).id
  await service.call('POST', '/api/honeypots/check/path', {
    body: { path, meta: { tool: markup, instance_id: hostile } },
  })
  for (const description of [markup, unseen, long]) {
    const metadata = { [markup]: unseen, nested: { text: markup } }
    alertId = await postEvent(service, {
      severity: 'breach',
      source: markup.slice(0, 100),
      description,
      instance_id: hostile,
      session_id: unseen,
      metadata,
    })
  }
  const call = {
    attempt: randomUUID(),
    session_id: unseen,
    tool: `${unseen}${markup}`.slice(0, 150),
    args_sha256: '0'.repeat(64),
    args: `${unseen}${markup}${long}`,
    policy_id: randomUUID(),
    policy_version: 1,
    rule: markup,
    why: `${unseen}${markup}`,
    approvals: 1,
    wait_seconds: 3_600,
  }
  const asked = await service.call<{ id: string }>('POST', `/api/instances/${hostile}/approvals`, { body: call })
  expect(asked.status, asked.text).toBe(200)
  approvalId = asked.body.id
  const stop = { selector: { instances: [hostile] }, reason: `${unseen}${markup}` }
  const created = await service.call<{ id: string }>('POST', '/api/containments', {
    body: { action: 'suspend', confirm: 'suspend 1 agent', two_person: true, ...stop },
  })
  expect(created.status, created.text).toBe(201)
  containmentId = created.body.id
  const resume = { action: 'resume', confirm: 'resume 1 agent', ...stop }
  expect((await service.call('POST', '/api/containments', { body: resume })).status).toBe(409)
  const drill = await service.call<{ id: string }>('POST', '/api/drills', { body: { selector: stop.selector } })
  expect(drill.status, drill.text).toBe(201)
  drillId = drill.body.id
  const rule = {
    title: `${unseen}${markup}`,
    description: `${unseen}${markup}`,
    severity: 'breach',
    detection: { by: { instance_id: hostile }, condition: 'by' },
    exceptions: [{ who: { tags: ['team:data'] }, reason: `${unseen}${markup}`, until: '2090-01-01' }],
  }
  const stored = await service.call<{ id: string }>('POST', '/api/rules', { body: rule })
  expect(stored.status, stored.text).toBe(201)
  ruleId = stored.body.id
  const policy = {
    title: `${unseen}${markup}`,
    rules: [{ title: `${unseen}${markup}`, decision: 'ask', match: { tool: 'send' } }],
  }
  const kept = await service.call<{ id: string }>('POST', '/api/policies', { body: policy })
  expect(kept.status, kept.text).toBe(201)
  policyId = kept.body.id
  const list = { description: `${unseen}${markup}`, entries: [markup, unseen, 'x'.repeat(300)], version: 0 }
  expect((await service.call('PUT', '/api/lists/hostile', { body: list })).status).toBe(200)
  await postEvent(service, { description: markup, instance_id: hostile })
  const change = { assignee: 'me', comment: `${unseen}${markup}` }
  const { status, text } = await service.call('PATCH', `/api/alerts/${alertId}`, { body: change })
  expect(status, text).toBe(200)
})

const paths = () => [
  '/login',
  '/auth/cli',
  '/',
  '/fleet',
  '/fleet?group=tags',
  '/fleet?tab=servers',
  `/fleet/${hostile}`,
  '/containments',
  `/containments?drill=${drillId}`,
  `/containments/${containmentId}`,
  '/events',
  '/decoys',
  `/decoys?open=${decoyId}`,
  `/decoys?plant=path-ssh&agent=${hostile}`,
  '/policies',
  '/policies/new',
  `/policies/${policyId}`,
  '/approvals',
  `/approvals/${approvalId}`,
  '/rules',
  '/rules/new',
  `/rules/${ruleId}`,
  '/rules/coverage',
  '/rules/lists',
  '/rules/lists/hostile',
  '/alerts',
  `/alerts?alert=${alertId}`,
  '/alerts?view=channels',
  `/alerts?view=channels&channel=${channelId}`,
  '/alerts?view=routing',
  '/audit',
  '/incidents',
  `/incidents?agent=${hostile}`,
  `/events?session_id=${encodeURIComponent(unseen)}`,
  '/keys',
  '/people',
  '/account',
  '/auth/callback',
  '/connect',
  '/settings',
  '/trust',
  '/wallboard',
  new URL(loginLink).pathname + new URL(loginLink).hash,
  '/nowhere',
]

interface AxeResult {
  violations: { id: string; impact: string; nodes: { html: string; failureSummary: string }[] }[]
}

/** Ordinary runs distribute these over the screens; at night each screen is shown in all of them. */
const looks = [
  ['dark', 1280],
  ['light', 390],
  ['dark', 390],
  ['light', 1280],
] as const

describe.each(looks)('in %s, %d pixels wide', (scheme, width) => {
  test('screens pass the checks of axe, fit their width, and make nothing of the texts of others', async () => {
    const page = await screens.signedIn({ at: nowhereYet, scheme, width })
    const turn = looks.findIndex((look) => look[0] === scheme && look[1] === width)
    for (const path of paths().filter((_, index) => effort(index % looks.length === turn, true))) {
      await page.goto(path)
      await page.getByRole('heading').first().waitFor()
      await settled(page)
      expect(await page.locator(made).count(), path).toBe(0)
      await page.evaluate(axe)
      const { violations } = (await page.evaluate('axe.run(document, { resultTypes: ["violations"] })')) as AxeResult
      const serious = violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .map(
          ({ id, nodes }) =>
            `${path} ${id}: ${nodes
              .slice(0, 3)
              .map(({ html, failureSummary }) => `${html} ${failureSummary}`)
              .join(' | ')}`,
        )
      expect(serious).toEqual([])
      const overflow = (await page.evaluate(
        'document.documentElement.scrollWidth - document.documentElement.clientWidth',
      )) as number
      expect(overflow, `${path} scrolls sideways`).toBeLessThanOrEqual(0)
    }
  })
})

describe('texts of others', () => {
  test('run nothing and hide nothing', async () => {
    const page = await screens.signedIn({ at: '/events?severity=breach' })
    await page.getByText('U+202E').first().waitFor()
    await page.getByRole('button', { name: /safe/ }).first().click()
    const drawer = page.getByRole('dialog')
    await drawer.getByText('U+2066').first().waitFor()
    await drawer.getByText('<script>alert(2)</script>').first().waitFor()
    expect(await page.locator(made).count()).toBe(0)
    await page.keyboard.press('j')
    await page.keyboard.press('Escape')
    await drawer.waitFor({ state: 'detached' })
  })

  test('show what was cut on request', async () => {
    const page = await screens.signedIn()
    await page
      .getByRole('button', { name: /more characters$/ })
      .first()
      .click()
    await page
      .getByText(/long end$/)
      .first()
      .waitFor()
  })
})

test('the chart has the same numbers as a table', async () => {
  const page = await screens.signedIn()
  await page.getByRole('img', { name: /^Events of the last 24 hours: [1-9]\d* breach, / }).waitFor()
  await page.getByRole('region', { name: 'Events by severity' }).getByRole('button', { name: 'Table' }).click()
  const counts = await page
    .getByRole('group', { name: /^Events of the last/ })
    .locator('td:nth-child(2)')
    .allTextContents()
  expect(counts.reduce((sum, count) => sum + Number(count), 0)).toBeGreaterThan(0)
})

describe('the fleet', () => {
  test('lists thousands of agents with the rows in view alone, filters, and keeps it in the address', async () => {
    const { service } = screens
    const count = 2_300
    const ids = Array.from({ length: count }, (_, index) => `many-${String(index).padStart(4, '0')}`)
    for (let from = 0; from < count; from += 100) {
      const beats = ids
        .slice(from, from + 100)
        .map((id) => service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } }))
      for (const { status, text } of await Promise.all(beats)) expect(status, text).toBe(200)
    }
    const page = await screens.signedIn({ at: '/fleet' })
    await page.getByRole('heading', { name: /^2,3\d\d agents/ }).waitFor()
    expect(await page.getByRole('rowgroup').getByRole('row').count()).toBeLessThan(80)
    await page.getByLabel('Filter by id').fill('many-1999')
    await page.getByRole('link', { name: 'many-1999' }).waitFor()
    await page.reload()
    await page.getByRole('link', { name: 'many-1999' }).waitFor()
    expect(await page.getByRole('rowgroup').getByRole('row').count()).toBe(1)
    await page.goto('/')
    await page.getByText('Each mark stands for 6 agents').waitFor()
    expect(await page.getByRole('listbox', { name: 'Fleet' }).getByRole('option').count()).toBeLessThanOrEqual(400)
  })
})
