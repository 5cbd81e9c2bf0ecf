import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { beat, createKey, createKeyDecoy, newInstance, unique } from '../fleet.ts'
import { newDataDir, until } from '../service.ts'
import { type Agent, useScreens } from './browser.ts'

/** Responses of an enforcement point: first an error, as during a restart. */
const lever = { status: 503, requests: [] as { action: string; instance_id: string }[] }
const receiver = createServer(async (request, response) => {
  lever.requests.push(JSON.parse(Buffer.concat(await request.toArray()).toString()))
  response.writeHead(lever.status).end()
})
await once(receiver.listen(0, '127.0.0.1'), 'listening')
afterAll(() => void receiver.close())
const pointsFile = join(newDataDir(), 'points.json')
const point = {
  url: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`,
  secret: `whsec_${randomBytes(32).toString('base64')}`,
}
const points = [
  { ...point, name: 'docker', instances: ['levered-*'] },
  { ...point, name: 'vault', tags: ['zone:*'], actions: ['suspend'] },
]
writeFileSync(pointsFile, JSON.stringify(points))
chmodSync(pointsFile, 0o600)

// Here two seconds of silence prove a stop, so that tests need not wait thirty.
const screens = useScreens({
  WARDLINE_SUSPENSION_SILENCE_SECONDS: '2',
  WARDLINE_ENFORCEMENT_FILE: pointsFile,
  WARDLINE_AUTO_SUSPEND: 'decoy',
  WARDLINE_AUTO_SUSPEND_PER_MINUTE: '1',
  WARDLINE_AUTO_SUSPEND_FLEET_PERCENT: '100',
})

const end = (agents: readonly Agent[]) => Promise.all(agents.map((agent) => agent.end()))
const setTag = (id: string, tag: string) =>
  screens.service.call('PUT', `/api/instances/${id}/tags`, { body: { tags: [tag] } })
const statusOf = async (id: string) =>
  (await screens.service.call<{ status: string }>('GET', `/api/instances/${id}`)).body.status
const contain = (action: string, instances: string[], more: object = {}) =>
  screens.service.call<{ id: string; error?: string }>('POST', '/api/containments', {
    body: {
      action,
      selector: { instances },
      reason: 'as a test',
      confirm: `${action} ${instances.length} agents`,
      ...more,
    },
  })

describe('the page of an agent', () => {
  test('shows the stages of a suspension with milliseconds, and "proven" only after the silence', async () => {
    const agent = await screens.agent(unique('staged'))
    const page = await screens.signedIn({ at: `/fleet/${agent.id}` })
    await page.getByRole('heading', { name: agent.id }).first().waitFor()
    await screens.service.call('POST', `/api/kill/${agent.id}`, { body: { reason: 'as a test' } })
    const panel = page.getByRole('region', { name: /confirmed after/ })
    await panel.waitFor()
    const stages = panel.getByRole('list', { name: 'Stages' }).first().getByRole('listitem')
    await stages.filter({ hasText: 'Silent', hasNotText: 'not observed' }).waitFor()
    await page.getByRole('heading', { name: /^Proven stopped: confirmed after [\d,]+ ms, and silent since$/ }).waitFor()
    const [, ...facts] = await stages.locator('.quiet').allTextContents()
    expect(facts).toHaveLength(5)
    for (const fact of facts) expect(fact).toMatch(/^\+[\d,]+ ms/)
    expect(facts.join()).toContain('by control stream')
    await screens.service.call('POST', `/api/resume/${agent.id}`)
    await page.getByRole('heading', { name: /^Resumed/ }).waitFor()
    await page.getByRole('heading', { name: 'Earlier suspensions' }).waitFor()
    await page.getByRole('list', { name: 'Earlier suspensions' }).getByText('Proven stopped').waitFor()
    await agent.end()
  })

  test('names an agent that works although it is suspended', async () => {
    const id = await newInstance(screens.service, 'violates')
    const page = await screens.signedIn({ at: `/fleet/${id}` })
    await screens.service.call('POST', `/api/kill/${id}`, { body: { reason: 'as a test' } })
    await page.getByRole('heading', { name: /^Suspended, not confirmed for/ }).waitFor()
    await screens.service.call('GET', `/api/instances/${id}/status`)
    await page.getByRole('heading', { name: /^Suspended and delivered; this client cannot confirm/ }).waitFor()
    expect(await page.getByText(/proven stopped/i).count()).toBe(0)
    const lateEvent = () =>
      screens.service.call('POST', '/api/events', {
        body: { severity: 'info', source: id, event_type: 'tool_call', description: 'still here', instance_id: id },
      })
    await until(
      'the breach of a suspended agent',
      async () => {
        await lateEvent()
        return page.getByRole('heading', { name: /^Active although suspended: / }).count()
      },
      (count) => count > 0,
      60_000,
    )
    await page.getByText('active although suspended').first().waitFor()
  })

  test('runs a drill for the agent and says what it showed', async () => {
    const agent = await screens.agent(unique('drilled'))
    const page = await screens.signedIn({ at: `/fleet/${agent.id}` })
    await page.getByText('Last proven stoppable: never').waitFor()
    await page.getByRole('button', { name: 'Run a drill' }).click()
    await page.getByText(/^Answered after [\d,]+ ms: a suspension would reach this agent\.$/).waitFor()
    await page.getByText(/^Last proven stoppable: .*\d\d:\d\d/).waitFor()
    await agent.end()
    const deaf = await newInstance(screens.service)
    await page.goto(`/fleet/${deaf}`)
    await page.getByRole('button', { name: 'Run a drill' }).click()
    await page.getByText(/^A suspension may not reach this agent: no control stream is open/).waitFor()
  })

  test('says how many processes a supervisor can hold, and which it cannot', async () => {
    const { service } = screens
    const id = await newInstance(service, 'supervised')
    const { body } = await service.call<{ key: string }>('POST', '/api/keys', {
      body: { scope: 'agent', instances: [id], supervises: true },
    })
    const heartbeat = { instance_id: id, name: id, supervisor: { processes: 12, isolated: true } }
    await service.call('POST', '/api/heartbeat', { key: body.key, body: heartbeat })
    const stream = await service.openStream(`/api/instances/${id}/control?understands=drill`, { key: body.key })
    await stream.next(() => true)
    const page = await screens.signedIn({ at: `/fleet/${id}` })
    await page.getByText(/^its processes not proven yet$/).waitFor()
    for (const [unreachable, held] of [
      [0, '12 processes'],
      [2, '10 of 12 processes'],
    ] as const) {
      await page.getByRole('button', { name: 'Run a drill' }).click()
      const { json } = await stream.next<{ action: string; nonce: string }>(({ action }) => action === 'drill', 60_000)
      const supervisor = { processes: 12, unreachable }
      await service.call('POST', `/api/instances/${id}/drill`, {
        key: body.key,
        body: { nonce: json.nonce, supervisor },
      })
      await page.getByText(`Its supervisor can hold ${held}.`).waitFor()
    }
    await page.getByText(/^its processes proven .*\d\d:\d\d/).waitFor()
    await page.goto('/containments')
    await page.getByRole('table', { name: 'Manual drills' }).getByRole('link').first().click()
    await page
      .getByRole('region', { name: 'Drills' })
      .getByText('Its supervisor can hold 10 of 12 processes.')
      .waitFor()
    stream.close()
  })
})

test('suspending an agent names the enforcement points that are called for it, and its page what they answered', async () => {
  const agent = await screens.agent(unique('levered'))
  const page = await screens.signedIn()
  await page.goto(`/fleet/${agent.id}`)
  await page.getByRole('button', { name: `Suspend ${agent.id}` }).click()
  const dialog = page.getByRole('dialog')
  const reach = dialog.getByRole('list', { name: 'What this reaches' })
  await reach.getByText(/^Reached: Enforcement point docker \(127\.0\.0\.1:\d+\)$/).waitFor()
  expect(await reach.getByText('vault').count()).toBe(0)
  await dialog.getByLabel('Reason').fill('It leaked a key')
  await dialog.getByRole('button', { name: `Suspend ${agent.id}` }).click()
  await dialog.getByText(/^The agent confirmed after/).waitFor()
  await dialog.getByRole('button', { name: 'Close' }).click()
  const answers = page.getByRole('list', { name: 'Enforcement points' })
  await answers.getByText(/Enforcement point docker: not confirmed yet.*answered 503/).waitFor()
  await page.getByRole('heading', { name: 'Partial: an enforcement point has not confirmed' }).waitFor()
  lever.status = 200
  await answers.getByText(/Enforcement point docker: confirmed/).waitFor()
  await page.getByRole('heading', { name: /^Proven stopped/ }).waitFor()
  expect(lever.requests).toContainEqual(expect.objectContaining({ action: 'suspend', instance_id: agent.id }))
  await agent.end()
})

test('the plan of a fleet stop names the enforcement points and for whom they are called', async () => {
  const tag = `zone:${unique('eu')}`
  await setTag(await newInstance(screens.service), tag)
  const page = await screens.signedIn()
  await page.goto('/fleet')
  await page.getByRole('button', { name: 'Suspend by tag…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: tag }).click()
  const reach = dialog.getByRole('list', { name: 'What this reaches' })
  await reach.getByText('called for tags zone:*').waitFor()
  await reach.getByText('called for ids levered-*').waitFor()
})

describe('a fleet stop', () => {
  test('by tag shows whom it reaches, wants typed words, and follows until all are proven, with a keyboard', async () => {
    const tag = unique('stop')
    const agents = await Promise.all([screens.agent(unique('one')), screens.agent(unique('two'))])
    const deaf = await newInstance(screens.service, 'deaf')
    for (const id of [...agents.map(({ id }) => id), deaf]) expect((await setTag(id, tag)).status).toBe(200)
    const page = await screens.signedIn({ at: '/fleet' })
    await page.getByRole('button', { name: 'Suspend by tag…' }).press('Enter')
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: tag }).press('Enter')
    await dialog.getByText('2 agents by control stream').waitFor()
    await dialog.getByText('1 agent that never confirmed a control message').waitFor()
    await dialog.getByRole('link', { name: deaf }).waitFor()
    for (const id of [agents[0]!.id, deaf]) expect(await statusOf(id)).toBe('active')
    await dialog.getByLabel('Reason').fill('Unusual traffic of the group')
    const words = dialog.getByLabel('Type suspend 3 agents')
    await words.fill('suspend 2 agents')
    await dialog.getByText('Does not match "suspend 3 agents".').waitFor()
    expect(await dialog.getByRole('button', { name: 'Suspend 3 agents' }).isDisabled()).toBe(true)
    await words.press('Enter')
    expect(await statusOf(agents[0]!.id)).toBe('active')
    await words.fill('suspend 3 agents')
    await words.press('Enter')
    await dialog.getByText('Suspending 3 agents: 2 confirmed.').waitFor()
    for (const agent of agents) await agent.heard('suspended')
    await dialog.getByRole('link', { name: deaf }).waitFor()
    expect(await dialog.getByText(/stopped\./).count()).toBe(0)
    await dialog.getByRole('link', { name: 'Open this containment' }).press('Enter')
    await page.waitForURL(/\/containments\/[0-9a-f-]{36}$/)
    await page.getByRole('heading', { name: 'Suspending 3 agents: 2 confirmed' }).waitFor()
    // The banner stays on every screen while it applies.
    await page.goto('/events')
    await page.locator('.banner').getByText('Suspending 3 agents: 2 confirmed.').waitFor()
    await page.locator('.banner').getByRole('link', { name: 'Open this containment' }).click()
    const proven = page.getByRole('progressbar', { name: 'Proven stopped' })
    await until(
      'both agents proven stopped',
      () => proven.getAttribute('value'),
      (value) => value === '2',
    )
    await screens.service.call('POST', `/api/instances/${deaf}/ack`, { body: { version: 1 } })
    await page.getByRole('heading', { name: '3 agents proven stopped' }).waitFor()
    await page.getByText('All agents confirmed.').waitFor()
    await page.goto('/fleet')
    await page.getByRole('row').filter({ hasText: deaf }).getByText('suspended, proven stopped').waitFor()
    await end(agents)
  })

  test('says the new number when the fleet changed after the plan', async () => {
    const [one, two, three] = await Promise.all(['a', 'b', 'c'].map((name) => newInstance(screens.service, name)))
    const tag = unique('changing')
    for (const id of [one!, two!, three!]) await setTag(id, tag)
    const page = await screens.signedIn({ at: '/fleet' })
    await page.getByRole('button', { name: 'Suspend by tag…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: tag }).click()
    await dialog.getByLabel('Reason').fill('too late')
    await dialog.getByLabel('Type suspend 3 agents').fill('suspend 3 agents')
    await screens.service.call('POST', `/api/kill/${three}`, { body: { reason: 'faster' } })
    await dialog.getByRole('button', { name: 'Suspend 3 agents' }).click()
    await dialog.getByText(/confirm does not match: the selector matches 2 agents now/).waitFor()
    await dialog.getByLabel('Type suspend 2 agents').waitFor()
    expect(await statusOf(one!)).toBe('active')
  })

  test('is resumed in stages', async () => {
    const ids = await Promise.all(['x', 'y', 'z'].map((name) => newInstance(screens.service, name)))
    const { body } = await contain('suspend', ids)
    const page = await screens.signedIn({ at: `/containments/${body.id}` })
    await page.getByRole('button', { name: 'Resume in stages…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Number of agents (3 suspended)').waitFor()
    await dialog.getByLabel('Reason').fill('one first')
    await dialog.getByLabel('Type resume 1 agent').fill('resume 1 agent')
    await dialog.getByRole('button', { name: 'Resume 1 agent' }).click()
    await dialog.getByText('Resuming 1 agent: 0 confirmed.').waitFor()
    const statuses = () => Promise.all(ids.map(statusOf))
    await until('one agent that is resumed', statuses, (all) => all.filter((one) => one === 'active').length === 1)
  })
})

describe('a resume by two operators', () => {
  test('waits on the screen for the second one, who confirms it there', async () => {
    const ids = await Promise.all([newInstance(screens.service), newInstance(screens.service)])
    const { body } = await contain('suspend', ids, { two_person: true })
    const first = await screens.signedIn({
      at: `/containments/${body.id}`,
      key: await createKey(screens.service, { scope: 'operator', name: 'Ada' }),
    })
    await first.getByText('the resume requires two operators').waitFor()
    await first.getByRole('button', { name: 'Resume in stages…' }).click()
    const asks = first.getByRole('dialog')
    await asks.getByLabel(/^All that are still suspended/).check()
    await asks.getByText('A second operator must confirm this within 15 minutes').waitFor()
    await asks.getByLabel('Type resume 2 agents').fill('resume 2 agents')
    await asks.getByRole('button', { name: 'Resume 2 agents' }).click()
    await asks.getByText(/^A second operator must confirm this resume/).waitFor()
    await asks.getByRole('button', { name: 'Close' }).click()
    await first.goto('/containments')
    const own = first.getByRole('region', { name: 'Waiting for a second operator' })
    await own.getByText('Your own request: another operator must confirm it.').waitFor()
    expect(await own.getByRole('button', { name: 'Confirm…' }).isDisabled()).toBe(true)
    for (const id of ids) expect(await statusOf(id)).toBe('suspended')

    const second = await screens.signedIn({
      key: await createKey(screens.service, { scope: 'operator', name: 'Grace' }),
    })
    await second.locator('.banner').getByText('1 resume waits for a second operator.').waitFor()
    await second.goto('/containments')
    const waiting = second.getByRole('region', { name: 'Waiting for a second operator' })
    await waiting.getByText(/ by Ada$/).waitFor()
    await waiting.getByRole('button', { name: 'Confirm…' }).click()
    const dialog = second.getByRole('dialog')
    await dialog.getByLabel('Reason').fill('I agree')
    await dialog.getByLabel('Type resume 2 agents').fill('resume 2 agents')
    await dialog.getByRole('button', { name: 'Resume 2 agents' }).click()
    await dialog.getByText(/^Resuming 2 agents/).waitFor()
    const statuses = () => Promise.all(ids.map(statusOf))
    await until('both agents resumed', statuses, (all) => all.every((one) => one === 'active'))
  })
})

test('a resume of more agents than are listed is read page by page and confirmed by the second operator', async () => {
  const ids = Array.from({ length: 105 }, (_, n) => `many-${String(n).padStart(3, '0')}`)
  await Promise.all(ids.map((id) => beat(screens.service, id)))
  expect((await contain('suspend', ids, { two_person: true })).status).toBe(201)
  await until(
    'the last agent suspended',
    () => Promise.all([ids[0]!, ids[104]!].map(statusOf)),
    (all) => all.every((one) => one === 'suspended'),
  )
  expect((await contain('resume', ids)).status).toBe(409)
  const page = await screens.signedIn({ key: await createKey(screens.service, { scope: 'operator', name: 'Grace' }) })
  await page.goto('/containments')
  const waiting = page.getByRole('region', { name: 'Waiting for a second operator' })
  const request = waiting.getByRole('row', { name: /^Resume 105 agents: / })
  await request.getByRole('button', { name: 'Confirm…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('1–20 of 105 agents').waitFor()
  // The plan appears below the list and then moves the centered dialog under the pointer.
  await dialog.getByLabel('Reason').waitFor()
  for (const shown of ['21–40', '41–60', '61–80', '81–100', '101–105']) {
    await dialog.getByRole('button', { name: 'Next' }).click()
    await dialog.getByText(`${shown} of 105 agents`).waitFor()
  }
  await dialog.getByRole('link', { name: ids[104]! }).waitFor()
  expect(await dialog.getByRole('button', { name: 'Next' }).isDisabled()).toBe(true)
  await dialog.getByLabel('Reason').fill('I agree')
  await dialog.getByLabel('Type resume 105 agents').fill('resume 105 agents')
  await dialog.getByRole('button', { name: 'Resume 105 agents' }).click()
  await dialog.getByText(/^Resuming 105 agents/).waitFor()
  const statuses = () => Promise.all(ids.map(statusOf))
  await until('all agents resumed', statuses, (all) => all.every((one) => one === 'active'))
})

test('a drill of a tag is started, and its report names who did not answer', async () => {
  const tag = unique('drill')
  const agent = await screens.agent(unique('answers'))
  const deaf = await newInstance(screens.service)
  for (const id of [agent.id, deaf]) await setTag(id, tag)
  await beat(screens.service, deaf)
  const page = await screens.signedIn({ at: '/containments' })
  const panel = page.getByRole('region', { name: 'Drills' })
  await panel.getByRole('button', { name: tag }).click()
  await panel.getByRole('button', { name: `Run a drill on agents with ${tag}` }).click()
  await page.waitForURL(/drill=/)
  await panel.getByText(/^1 of 2 agents answered \(p50 [\d,]+ ms/).waitFor()
  await panel
    .getByRole('listitem')
    .filter({ hasText: deaf })
    .getByText(/no control stream is open/)
    .waitFor()
  await agent.end()
})

test('a viewer sees everything and may start nothing', async () => {
  const ids = await Promise.all([newInstance(screens.service), newInstance(screens.service)])
  const { body } = await contain('suspend', ids)
  const page = await screens.signedIn({
    at: `/containments/${body.id}`,
    key: await createKey(screens.service, { scope: 'viewer' }),
  })
  expect(await page.getByRole('button', { name: 'Resume in stages…' }).isDisabled()).toBe(true)
  await page.goto('/containments')
  await page
    .getByRole('link', { name: /^Suspend \d+ agent/ })
    .first()
    .waitFor()
  expect(await page.getByRole('button', { name: /^Run a drill/ }).isDisabled()).toBe(true)
  await page.goto('/fleet')
  await page.getByLabel('Filter by id').waitFor()
  expect(await page.getByRole('button', { name: 'Suspend by tag…' }).count()).toBe(0)
})

test('the brake says what engaged it and whom it left running, over every screen, until an operator releases it', async () => {
  const ids = await Promise.all(['first', 'second'].map((name) => newInstance(screens.service, name)))
  const { key } = await createKeyDecoy(screens.service, ids[0]!)
  for (const instance_id of ids) {
    const body = { key, meta: { instance_id } }
    expect((await screens.service.call('POST', '/api/honeypots/check/key', { body })).status).toBe(200)
  }
  expect(await Promise.all(ids.map(statusOf))).toEqual(['suspended', 'active'])
  const page = await screens.signedIn()
  await page
    .getByRole('region', { name: 'Needs attention' })
    .getByText(/^The brake is engaged/)
    .waitFor()
  const banner = page.locator('.banner')
  await banner.getByText(/^The brake is engaged: nothing is suspended automatically/).waitFor()
  await banner.getByRole('link', { name: 'Show the brake' }).click()
  const panel = page.getByRole('region', { name: /^The brake is engaged/ })
  await panel.getByText(/by event [0-9a-f-]{36}\. 1 automatic suspension refused since/).waitFor()
  await page
    .getByRole('region', { name: 'Suspensions refused by the brake' })
    .getByRole('link', { name: ids[1]! })
    .waitFor()
  await page.getByRole('button', { name: 'Suspend it…' }).click()
  const suspending = page.getByRole('dialog')
  expect(await suspending.getByLabel('Reason').inputValue()).toBe('The brake refused to suspend')
  await suspending.getByLabel('Type suspend 1 agent to confirm').fill('suspend 1 agent')
  await suspending.getByRole('button', { name: 'Suspend 1 agent' }).click()
  await until(
    'the agent to be suspended',
    () => statusOf(ids[1]!),
    (status) => status === 'suspended',
  )
  await page.keyboard.press('Escape')
  await suspending.waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Suspend it…' }).waitFor({ state: 'detached' })
  await panel.getByRole('button', { name: 'Release…' }).click()
  const dialog = page.getByRole('dialog')
  expect(await dialog.getByRole('button', { name: 'Release the brake' }).isDisabled()).toBe(true)
  await dialog.getByLabel('Reason').fill('The decoy was on a shared path')
  await dialog.getByRole('button', { name: 'Release the brake' }).click()
  await page.getByRole('region', { name: 'Brake', exact: true }).getByText('Not engaged.').waitFor()
  await banner.getByText(/^The brake is engaged/).waitFor({ state: 'detached' })
  await page.goto(`/fleet/${ids[0]}`)
  await page.getByText(/^caused by event [0-9a-f-]{36}$/).waitFor()
})
