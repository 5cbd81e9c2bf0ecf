import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { endWithTests } from '../left-behind.ts'
import { freePort, newDataDir, until } from '../service.ts'
import { signIn, useScreens } from './browser.ts'

const screens = useScreens()
const root = fileURLToPath(new URL('../..', import.meta.url))

// The first minute with the product: the commands of the README and a running fleet.
test('npm start -- --demo opens on a living overview, and suspends agents together', async () => {
  const port = await freePort()
  const dataDir = newDataDir()
  const npm = spawn('npm', ['start', '--', '--demo'], {
    cwd: root,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, PORT: String(port), WARDLINE_DATA_DIR: dataDir },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A separate group, so that the demo's agents end too.
    detached: true,
  })
  endWithTests(npm)
  let output = ''
  for (const stream of [npm.stdout, npm.stderr]) stream.on('data', (chunk) => (output += chunk))
  try {
    await until(
      'the welcome of the demo',
      () => output,
      (text) => text.includes('Dashboard'),
      // The demo lives through a day before it answers.
      240_000,
    )
    const address = /Dashboard\s+(\S+)/.exec(output)![1]!
    expect(address).toBe(`http://127.0.0.1:${port}/`)
    const context = await screens.browser.newContext({ baseURL: address })
    const page = await context.newPage()
    await signIn(page, readFileSync(join(dataDir, 'admin-key'), 'utf8').trim())
    await page
      .getByRole('navigation', { name: 'Counts' })
      // Two of them are suspended after the first twenty seconds.
      .getByText(/^(20|18)$/)
      .first()
      .waitFor()
    expect(await page.getByRole('listbox', { name: 'Fleet' }).getByRole('option').count()).toBe(20)
    // It begins with a day of history: the chart of 24 hours has a bar for most half hours.
    const bars = page.getByRole('region', { name: 'Events by severity' }).locator('svg rect')
    await until(
      'bars in the chart',
      () => bars.count(),
      (count) => count > 40,
    )
    const newest = page.getByRole('region', { name: 'Live events' }).locator('li').first()
    const before = await newest.textContent()
    await until(
      'another event at the top',
      () => newest.textContent(),
      (text) => text !== before,
    )
    await page.getByText(/[1-9]\d* events\/s|0\.[1-9] events\/s/).waitFor()
    await page.goto('/containments')
    await page.getByRole('region', { name: 'Drills' }).getByText('20 of 20', { exact: true }).waitFor()
    const list = page.getByRole('region', { name: 'Containments', exact: true })
    await list.getByText(/^Suspend 2 agents: demo-deploy-helper-1, demo-deploy-helper-2/).waitFor()
    await list
      .getByText(/^2 of 2/)
      .first()
      .waitFor()
    await page.goto('/rules')
    await page.getByRole('heading', { name: /^46 rules, [1-9]\d* firings in 24 h$/ }).waitFor()
    await page.goto('/alerts?status=resolved')
    await page.getByText('demo-inbox-triager-1 used a decoy').first().waitFor()
    await page.goto('/fleet/demo-deploy-helper-1')
    await page.getByRole('heading', { name: /^(Suspended, confirmed after|Proven stopped)/ }).waitFor()
    await context.close()
  } finally {
    process.kill(-npm.pid!, 'SIGKILL')
  }
})
