import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { createKey, newInstance, unique } from '../fleet.ts'
import { startService } from '../service.ts'
import { nowhereYet, signIn, useScreens } from './browser.ts'

const screens = useScreens()

test('shows health, jobs, storage, channels and configuration, each with its source', async () => {
  await newInstance(screens.service)
  const page = await screens.signedIn()
  await page.keyboard.press('g')
  await page.keyboard.press('i')
  await page.waitForURL('**/settings')
  await page.getByRole('heading', { name: 'Service healthy' }).waitFor()
  // What a person comes for stands first, and the jobs by their internal names last.
  expect(await page.getByRole('heading', { level: 2 }).allTextContents()).toEqual([
    'What is on',
    'Health',
    'Storage and retention',
    'Alert channels',
    'Configuration',
    'Background jobs',
  ])
  await page.getByRole('row', { name: 'Automatic suspension off' }).waitFor()
  await page.getByRole('row', { name: /^Events stored about [\d,]+$/ }).waitFor()
  await page.getByRole('row', { name: /^audit-verify ok \d\d:\d\d:\d\d .* every 60 min$/ }).waitFor()
  await page.getByRole('row', { name: /^Agents [\d,]+ of 100,000$/ }).waitFor()
  await page.getByText('No alert channels: nobody is notified.').waitFor()
  await page.getByRole('row', { name: /^WARDLINE_RETENTION_DAYS 90 default/ }).waitFor()
  await page.getByRole('button', { name: 'Hide defaults' }).click()
  await page
    .getByRole('row', { name: /^WARDLINE_API_KEY set environment .* stores it in the file admin-key/ })
    .waitFor()
  expect(await page.getByRole('row', { name: /^WARDLINE_RETENTION_DAYS/ }).count()).toBe(0)
  // A table that is wider than a tablet scrolls in its panel.
  await page.setViewportSize({ width: 900, height: 860 })
  const widths =
    '[...document.querySelectorAll("main section")].map((panel) => panel.getBoundingClientRect().right <= innerWidth)'
  expect(await page.evaluate(widths)).not.toContain(false)
  expect(await page.getByRole('main').textContent()).not.toMatch(/`|\]\(/)
})

test('shows in the heading that the service does not respond, and to viewers the scope they need', async () => {
  const page = await screens.signedIn({ at: nowhereYet })
  await page.clock.install()
  await page.goto('/settings')
  await page.getByRole('heading', { name: 'Service healthy' }).waitFor()
  await page.route('**/api/**', (route) => route.abort())
  await page.clock.fastForward(60_000)
  await page.getByRole('heading', { name: /^No answer from the service for \d+ s/ }).waitFor()
  const viewer = await screens.signedIn({ at: '/settings', key: await createKey(screens.service, { scope: 'viewer' }) })
  await viewer.getByText('Settings require a key with scope operator or admin').waitFor()
})

// The page is visible to people who may not know secrets.
test('holds no secret of the configuration', async () => {
  const canary = `canary${randomBytes(16).toString('hex')}`
  const service = await startService({
    env: {
      WARDLINE_SECRET: canary,
      ALERT_WEBHOOK_URL: `https://hooks.example.com/${canary}`,
      ALERT_WEBHOOK_SECRET: `whsec_${Buffer.from(canary).toString('base64')}`,
      SLACK_WEBHOOK_URL: `https://hooks.slack.com/services/T0/B0/${canary}`,
      DISCORD_WEBHOOK_URL: `https://discord.com/api/webhooks/1/${canary}`,
      TEAMS_WEBHOOK_URL: `https://example.webhook.office.com/${canary}`,
      TELEGRAM_BOT_TOKEN: `123456:${canary}`,
      TELEGRAM_CHAT_ID: '1',
      PAGERDUTY_ROUTING_KEY: canary.slice(0, 32),
      SMTP_URL: `smtp://user:${canary}@mail.example.com`,
      ALERT_EMAIL_FROM: 'a@example.com',
      ALERT_EMAIL_TO: 'a@example.com',
      NTFY_URL: `https://ntfy.example.com/${canary}`,
    },
  })
  try {
    const context = await screens.browser.newContext({ baseURL: service.baseUrl })
    const page = await context.newPage()
    await signIn(page, service.key)
    await page.goto('/settings')
    await page.getByRole('row', { name: /^SMTP_URL set environment/ }).waitFor()
    const answer = await service.call('GET', '/api/system')
    for (const text of [await page.content(), answer.text]) {
      for (const part of [canary.slice(0, 32), Buffer.from(canary).toString('base64'), service.key]) {
        expect(text).not.toContain(part)
      }
    }
    await context.close()
  } finally {
    await service.stop()
  }
})

test('has a wallboard without controls, which leaves by Esc and is found by the palette', async () => {
  const agent = await newInstance(screens.service, unique('walled'))
  const report = '"><img src=x onerror=alert(1)>\u202Etxt.exe'
  const body = { severity: 'breach', source: agent, event_type: 'note', description: report, instance_id: agent }
  expect((await screens.service.call('POST', '/api/events', { body })).status).toBe(201)
  const page = await screens.signedIn()
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').waitFor()
  await page.keyboard.type('wallboard')
  await page.getByRole('option', { name: /Wallboard/ }).waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL('**/wallboard')
  await page.getByRole('heading', { level: 1, name: `${agent} reports note` }).waitFor()
  await page.getByText('Live', { exact: true }).waitFor()
  await page.getByText('U+202E').first().waitFor()
  await page.getByText(/^The screen (stays on|may go dark)/).waitFor()
  expect(await page.getByRole('main').locator('button, a, input, img').count()).toBe(0)
  await page.keyboard.press('Escape')
  await page.getByRole('navigation', { name: 'Screens' }).first().waitFor()
  await page.keyboard.press('g')
  await page.keyboard.press('w')
  await page.waitForURL('**/wallboard')
})

// A wallboard is unattended: if it kept showing the last good state, an outage would look like normal operation.
test('has a wallboard that never claims to be live when it is not', async () => {
  const page = await screens.signedIn({ at: nowhereYet })
  await page.clock.install()
  await page.goto('/wallboard')
  await page.getByText('Live', { exact: true }).waitFor()
  // A screen that has not read everything says that there is no answer, without a time.
  await page.getByRole('heading', { level: 1, name: /^(?!Loading the fleet)/ }).waitFor()
  await screens.service.terminate()
  await page.getByText('Reconnecting…').waitFor()
  await page.clock.fastForward(11_000)
  await page.getByRole('heading', { name: /^No answer from the service for \d+ s/ }).waitFor()
  await page.getByText('Data may be outdated.').waitFor()
  expect(await page.getByText('Live', { exact: true }).count()).toBe(0)
  await screens.service.start()
  await page.getByText('Live', { exact: true }).waitFor()
  await page.getByRole('heading', { name: /^No answer/ }).waitFor({ state: 'detached' })
})
