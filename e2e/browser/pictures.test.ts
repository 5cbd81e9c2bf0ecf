import { once } from 'node:events'
import { copyFileSync, existsSync, readdirSync, statSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { createKey, createKeyDecoy, createPathDecoy, postEvent } from '../fleet.ts'
import { newDataDir } from '../service.ts'
import { settled, useScreens } from './browser.ts'

// `npm run pictures` takes those that docs/images has again; a test run only checks that they can be taken.

const screens = useScreens({ WARDLINE_ALERT_ALLOW_CIDRS: '127.0.0.0/8' })
const folder = newDataDir()
const images = fileURLToPath(new URL('../../docs/images', import.meta.url))
const names = ['billing', 'code-review', 'data-analyst', 'deploy-helper', 'inbox-triage', 'research', 'support-bot']

let receiver: Server | undefined
afterAll(() => void receiver?.close())

/** Starts an alert receiver that accepts everything. */
async function startReceiver(): Promise<string> {
  receiver = createServer((request, response) => void request.resume().on('end', () => response.end('ok')))
  await once(receiver.listen(0, '127.0.0.1'), 'listening')
  return `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/services/on-call`
}

/** A fleet after an incident: one agent used a decoy and was suspended, another one behaves anomalously. */
async function tellStory(): Promise<() => Promise<void>> {
  const { service } = screens
  const beats = Array.from({ length: 84 }, (_, index) => {
    const id = `${names[index % names.length]}-${1 + Math.floor(index / names.length)}`
    return service.call('POST', '/api/heartbeat', {
      body: { instance_id: id, name: id, version: '4.2.0', tags: [`team:${names[index % names.length]}`] },
    })
  })
  for (const { status } of await Promise.all(beats)) expect(status).toBe(200)
  await service.call('POST', '/api/alert-channels', {
    body: { name: 'On call', type: 'slack', settings: { url: await startReceiver() } },
  })
  const stored = await service.call('POST', '/api/rules', {
    body: {
      title: 'Refused hosts of one agent',
      severity: 'warning',
      detection: { refused: { event_type: 'egress_blocked' }, condition: 'refused' },
    },
  })
  expect(stored.status, stored.text).toBe(201)
  const agent = await screens.agent('billing-1')
  const { key } = await createKeyDecoy(service, 'billing-1', 'openai', 'OpenAI key in .env of the billing bot')
  await createPathDecoy(service, 'deploy-helper-1', '~/.ssh/id_rsa_prod', 'SSH key path')
  await createPathDecoy(service, 'support-1', '/srv/export/customers_2026.csv', 'Export of customers')
  for (const instances of [['billing-1'], ['deploy-helper-*'], ['support-1', 'support-2']])
    await createKey(service, { scope: 'agent', instances, name: instances.join(', ') })
  for (const [scope, name] of [
    ['operator', 'ada'],
    ['viewer', 'wallboard'],
  ] as const)
    await createKey(service, { scope, name })
  for (const [index, name] of names.entries()) {
    const event_type = ['egress_blocked', 'policy_violation', 'tool_blocked'][index % 3]!
    await postEvent(service, {
      severity: 'warning',
      event_type,
      source: `${name}-2`,
      instance_id: `${name}-2`,
      description: 'Refused a host that is not on the list',
    })
    await postEvent(service, {
      event_type: 'tool_call',
      source: `${name}-3`,
      instance_id: `${name}-3`,
      description: 'Searched the knowledge base',
      metadata: { toolName: 'web-search' },
    })
  }
  await postEvent(service, {
    severity: 'critical',
    event_type: 'data_export',
    source: 'data-analyst-3',
    instance_id: 'data-analyst-3',
    description: 'Sent 41 requests in five minutes to six hosts, two of them new',
  })
  await service.call('POST', '/api/honeypots/check/key', {
    body: { key, meta: { tool: 'shell-exec', instance_id: 'billing-1' } },
  })
  await service.call('POST', '/api/kill/billing-1', {
    body: { reason: 'Decoy touched: shell-exec used the key from its environment' },
  })
  await agent.heard('suspended')
  return agent.end
}

async function containTeam(): Promise<void> {
  const contained = await screens.service.call('POST', '/api/containments', {
    body: {
      action: 'suspend',
      selector: { tags: ['team:research'] },
      reason: 'Prompt injection in a shared document',
      confirm: 'suspend 12 agents',
    },
  })
  expect(contained.status, contained.text).toBe(201)
}

const paths = {
  overview: '/',
  fleet: '/fleet',
  agent: '/fleet/billing-1',
  events: '/events',
  alerts: '/alerts',
  decoys: '/decoys',
  rules: '/rules',
  incidents: '/incidents?agent=billing-1',
  keys: '/keys',
  audit: '/audit',
  settings: '/settings',
  wallboard: '/wallboard',
  trust: '/trust',
}

async function showAll(shown: Record<string, string>): Promise<void> {
  for (const [scheme, width] of [
    ['dark', 1440],
    ['light', 1440],
    ['dark', 900],
    ['dark', 390],
  ] as const) {
    const page = await screens.signedIn({ scheme, width })
    for (const [name, path] of Object.entries(shown)) {
      await page.goto(path)
      await page.getByRole('heading').first().waitFor()
      await page.getByText('Connecting…').waitFor({ state: 'detached' })
      await settled(page)
      const file = join(folder, `${name}-${width === 1440 ? scheme : width}.png`)
      await page.screenshot({ path: file })
      expect(statSync(file).size, file).toBeGreaterThan(10_000)
    }
    await page.context().close()
  }
}

test('every screen can be shown in both themes and three widths', async () => {
  const end = await tellStory()
  await showAll(paths)
  const page = await screens.signedIn({ at: '/fleet/data-analyst-3', scheme: 'light' })
  await page.getByRole('button', { name: 'Suspend data-analyst-3' }).click()
  await page.getByRole('dialog').getByText('A command that is running already').waitFor()
  await page.screenshot({ path: join(folder, 'suspend-light.png') })
  await page.goto('/decoys?plant=key-aws&agent=deploy-helper-1')
  await page.getByRole('button', { name: 'Create decoy' }).click()
  await page.getByText('Copy the key now').waitFor()
  await page.screenshot({ path: join(folder, 'decoy-planted-light.png') })
  await page.goto('/connect?agent=support-bot-1')
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByText('The commands below contain the key').waitFor()
  await page.screenshot({ path: join(folder, 'connect-light.png') })
  await page.goto('/rules')
  await page.getByRole('link', { name: 'Refused hosts of one agent' }).click()
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await page
    .getByText(/suspended in mode enforce/)
    .first()
    .waitFor()
  await page.screenshot({ path: join(folder, 'rule-light.png'), fullPage: true })
  await containTeam()
  await showAll({ containments: '/containments' })
  await page.goto('/containments')
  await page.getByRole('link', { name: 'Open this containment' }).click()
  await page.getByRole('heading', { level: 1 }).waitFor()
  await settled(page)
  await page.screenshot({ path: join(folder, 'containment-light.png'), fullPage: true })
  await end()
  if (!process.env.PICTURES) return
  for (const name of readdirSync(folder).filter((taken) => existsSync(join(images, taken))))
    copyFileSync(join(folder, name), join(images, name))
})
