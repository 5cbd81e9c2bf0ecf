import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { createKey, newInstance, unique } from '../fleet.ts'
import { settled, useScreens } from './browser.ts'

const screens = useScreens()

interface Answer {
  id: string
  state: string
}

/** Stores a policy that asks about a tool, by so many operators. */
async function createPolicy(tool: string, approvals = 1): Promise<string> {
  const policy = {
    title: unique('asks'),
    mode: 'enforce',
    rules: [{ title: 'Mail is asked', decision: 'ask', match: { tool }, approvals }],
  }
  const { status, text, body } = await screens.service.call<Answer>('POST', '/api/policies', { body: { policy } })
  expect(status, text).toBe(201)
  return body.id
}

interface Asked {
  agent: string
  policy: string
  tool: string
  args?: string
}

/** Asks for one call as the clients do; a repetition with the same attempt is the same call. */
async function ask({ agent, policy, tool, args = '{"to":"eve@evil.example"}' }: Asked, attempt: string = randomUUID()) {
  const body = {
    attempt,
    tool,
    args_sha256: Buffer.from(attempt.replaceAll('-', '')).toString('hex').slice(0, 64),
    args,
    policy_id: policy,
    policy_version: 1,
    rule: 'Mail is asked',
    why: 'The call sends data out.',
    approvals: 1,
    wait_seconds: 600,
  }
  const {
    status,
    text,
    body: answer,
  } = await screens.service.call<Answer>('POST', `/api/instances/${agent}/approvals`, { body })
  expect(status, text).toBe(200)
  return { ...answer, again: () => ask({ agent, policy, tool, args }, attempt) }
}

/** The key of a person: that of the tests asks for the agents, and may not decide what it asked. */
const operator = () => createKey(screens.service, { scope: 'operator', name: unique('operator') })

test('approves and denies with one press, from the overview, the list and the page of a request', async () => {
  const agent = await newInstance(screens.service, 'asking')
  const tool = unique('send')
  const policy = await createPolicy(tool)
  const first = await ask({ agent, policy, tool })
  const page = await screens.signedIn({ at: '/', key: await operator() })
  const waiting = page.getByRole('region', { name: 'Waiting for approval' })
  const row = waiting.getByRole('listitem').filter({ hasText: tool })
  await row.getByText('Mail is asked').waitFor()
  await row.getByRole('button', { name: /^Approve/ }).click()
  await row.waitFor({ state: 'detached' })
  expect((await first.again()).state).toBe('granted')

  // The stream shows a request as it arrives.
  await page.goto('/approvals')
  await page
    .getByRole('heading', { name: 'Approvals' })
    .or(page.getByText(/waits? for approval/))
    .first()
    .waitFor()
  const second = await ask({ agent, policy, tool, args: '{"to":"<img src=x onerror=alert(1)>"}' })
  const request = page.getByRole('listitem').filter({ hasText: tool })
  await request.getByText('<img src=x onerror=alert(1)>').waitFor()
  await request.getByRole('button', { name: /^Deny/ }).click()
  await request.waitFor({ state: 'detached' })
  expect((await second.again()).state).toBe('denied')
  const decided = page.getByRole('region', { name: 'Decided' })
  await decided.getByText('approved, call made').first().waitFor()
  await decided.getByText('denied', { exact: true }).first().waitFor()

  const third = await ask({ agent, policy, tool })
  await page.goto(`/approvals/${third.id}`)
  await page.getByRole('heading', { name: `${agent} asks to call ${tool}` }).waitFor()
  await page.keyboard.press('y')
  await page.getByText('approved, not used yet').waitFor()
  expect((await third.again()).state).toBe('granted')
})

test('a real agent waits for the press, goes on or not, and its page says what was decided', async () => {
  const agent = await screens.agent(unique('real'))
  const policy = {
    title: unique('shell'),
    mode: 'enforce',
    for: { agents: [agent.id] },
    rules: [
      { title: 'Pushes are asked', decision: 'ask', match: { tool: 'shell-exec(git push *)' } },
      { title: 'Nothing is wiped', decision: 'deny', match: { tool: 'shell-exec(rm -rf *)' } },
    ],
  }
  const stored = await screens.service.call<Answer>('POST', '/api/policies', { body: { policy } })
  expect(stored.status, stored.text).toBe(201)
  const page = await screens.signedIn({ at: `/approvals?agent=${agent.id}`, key: await operator() })
  const request = page.getByRole('listitem').filter({ hasText: 'shell-exec' })
  agent.use('git push origin main')
  await request.getByText('git push origin main').waitFor()
  await request.getByRole('button', { name: /^Approve/ }).click()
  await agent.heard('done')
  agent.use('git push --force')
  await request.getByText('git push --force').waitFor()
  await request.getByRole('button', { name: /^Deny/ }).click()
  await agent.heard('denied')
  agent.use('sudo rm -rf /srv')

  await page.goto(`/fleet/${agent.id}`)
  const decisions = page.getByRole('region', { name: 'Decisions' })
  await decisions.getByText(/Nothing is wiped/).waitFor()
  expect(await decisions.getByText(/Pushes are asked/).count()).toBe(4)
  await page.goto(`/policies/${stored.body.id}`)
  const rules = page.getByRole('region', { name: 'Rules' })
  await rules.getByRole('row').filter({ hasText: 'Pushes are asked' }).getByText('2 asked').waitFor()
  await rules.getByRole('row').filter({ hasText: 'Nothing is wiped' }).getByText('1 denied').waitFor()
  const backtest = page.getByRole('region', { name: 'Backtest' })
  await backtest.getByRole('button', { name: 'Run', exact: true }).click()
  // Of its calls only the one that ran is stored.
  await backtest.getByText(/^Would have asked 1 time and denied 0 calls on 1 agent in /).waitFor()
  await agent.end()
})

test('allows a tool for a while, within a number of calls, until it is revoked', async () => {
  const agent = await newInstance(screens.service, 'allowed')
  const tool = unique('read')
  const policy = await createPolicy(tool)
  const asked = await ask({ agent, policy, tool })
  const page = await screens.signedIn({ at: `/approvals?agent=${agent}`, key: await operator() })
  await page.getByRole('button', { name: /^Allow for a while…/ }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Calls at most').fill('3')
  await dialog.getByRole('button', { name: 'Allow', exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
  expect((await asked.again()).state).toBe('granted')
  expect((await ask({ agent, policy, tool })).state).toBe('granted')
  const allowances = page.getByRole('region', { name: 'Allowances' })
  await page.reload()
  await allowances.getByText('2 of 3').waitFor()
  await allowances.getByRole('button', { name: /^Revoke/ }).click()
  await allowances.waitFor({ state: 'detached' })
  expect((await ask({ agent, policy, tool })).state).toBe('pending')
})

test('a rule for two operators waits for a second one, and offers the first no second press', async () => {
  const agent = await newInstance(screens.service, 'eyes')
  const tool = unique('wipe')
  const policy = await createPolicy(tool, 2)
  const asked = await ask({ agent, policy, tool })
  const page = await screens.signedIn({ at: `/approvals/${asked.id}`, key: await operator() })
  await page.getByText('Needs two operators.').waitFor()
  expect(await page.getByRole('button', { name: /^Allow for a while/ }).count()).toBe(0)
  await page.getByRole('button', { name: /^Approve/ }).click()
  await page.getByText('Needs two operators; approved by you.').waitFor()
  expect(await page.getByRole('button', { name: /^Approve/ }).isDisabled()).toBe(true)
  expect((await asked.again()).state).toBe('pending')
  const other = await screens.signedIn({ at: `/approvals/${asked.id}`, key: await operator() })
  await other.getByText(/^Needs two operators; approved by operator/).waitFor()
  await other.getByRole('button', { name: /^Approve/ }).click()
  await other.getByText('approved, not used yet').waitFor()
  expect((await asked.again()).state).toBe('granted')
})

test('offers a key that approves for other agents no decision, by press or by key', async () => {
  const agent = await newInstance(screens.service, 'other-team')
  const tool = unique('pay')
  const asked = await ask({ agent, policy: await createPolicy(tool), tool })
  const admin = await screens.signedIn({ at: '/keys' })
  await admin.keyboard.press('n')
  const dialog = admin.getByRole('dialog', { name: 'Create a key' })
  await dialog.getByLabel('Scope').selectOption('operator')
  await dialog.getByLabel('Approves for').fill('team:payments, team:refunds')
  await dialog.getByLabel('Name').fill(unique('payments'))
  await dialog.getByRole('button', { name: 'Create key' }).click()
  const key = (await admin.getByRole('group', { name: /^Key with scope/ }).textContent()) ?? ''
  const page = await screens.signedIn({ at: `/approvals/${asked.id}`, key })
  await page.getByText('Your key does not decide about this agent.').waitFor()
  for (const name of [/^Approve/, /^Deny/, /^Allow for a while/]) {
    expect(await page.getByRole('button', { name }).isDisabled()).toBe(true)
  }
  await page.keyboard.press('x')
  await page.keyboard.press('y')
  expect((await asked.again()).state).toBe('pending')
  await screens.service.call('PUT', `/api/instances/${agent}/tags`, { body: { tags: ['team:refunds'] } })
  await page.reload()
  await page.getByRole('button', { name: /^Approve/ }).click()
  await page.getByText('approved, not used yet').waitFor()
})

test('shows readers what waits, on a phone too, without a way to decide', async () => {
  const agent = await newInstance(screens.service, 'watched')
  const tool = unique('pay')
  await ask({ agent, policy: await createPolicy(tool), tool })
  const key = await createKey(screens.service, { scope: 'viewer' })
  const page = await screens.signedIn({ at: '/approvals', key, width: 390 })
  const request = page.getByRole('listitem').filter({ hasText: tool })
  for (const name of [/^Approve/, /^Deny/]) expect(await request.getByRole('button', { name }).isDisabled()).toBe(true)
  const width = await page.evaluate('document.documentElement.scrollWidth')
  expect(width).toBeLessThanOrEqual(390)
  await settled(page)
})
