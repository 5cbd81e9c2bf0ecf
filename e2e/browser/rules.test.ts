import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createKey, newInstance, postEvent, unique } from '../fleet.ts'
import { newDataDir, until } from '../service.ts'
import { useScreens } from './browser.ts'

const folder = newDataDir()
const screens = useScreens({ WARDLINE_RULES_DIR: folder })

const unseen = '\u202Etxt.exe'
const markup = '"><img src=x onerror=alert(1)>'

const textOf = (prefix: string, more = '') => {
  const event = `{ event_type: tool_call, instance_id: ${prefix}1 }`
  return `title: Three calls of ${prefix}
severity: critical
detection:
  call:
    event_type: tool_call
    instance_id: ${prefix}*
  condition: call
correlation: { type: event_count, group-by: [instance_id], timespan: 5m, condition: { gte: 3 } }
response:
  - { action: suspend, for: 15m }
tests:
  match:
    - [${event}, ${event}, ${event}]
  no_match:
    - [${event}]
${more}`
}

writeFileSync(join(folder, 'kept.yml'), textOf('kept').replace('Three calls of kept', 'Kept in git'))
writeFileSync(join(folder, 'broken.yml'), 'title: Broken\nseverity: loud\n')

async function createRule(prefix: string, more = ''): Promise<string> {
  const { status, text, body } = await screens.service.call<{ id: string }>('POST', '/api/rules', {
    body: { rule: textOf(prefix, more) },
  })
  expect(status, text).toBe(201)
  return body.id
}

const callThrice = async (instance_id: string) => {
  for (let index = 0; index < 3; index++) {
    await postEvent(screens.service, { event_type: 'tool_call', description: 'A call', instance_id })
  }
}

/** A stored rule is active after a moment, so matching events are reported until it has fired. */
const firedBy = (id: string, report: () => Promise<unknown>) =>
  until(
    'the firing',
    async () => {
      await report()
      return screens.service.call<{ firings_24h: number }>('GET', `/api/rules/${id}`)
    },
    ({ body }) => body.firings_24h > 0,
  )

test('writes a rule that is checked at its lines, runs a backtest, saves it, and shows live that it fires', async () => {
  const agent = await newInstance(screens.service, 'ruled')
  await callThrice(agent)
  const page = await screens.signedIn({ at: '/rules' })
  await page.getByRole('button', { name: /^New rule/ }).click()
  await page.waitForURL('**/rules/new')
  const field = page.getByLabel('Text of the rule')
  await page.getByText('2 of 2 tests pass').waitFor()
  const save = page.getByRole('button', { name: 'Save in mode observe' })

  // First an unknown modifier, then a failing test: each is shown at its line.
  const text = textOf(agent)
  await field.fill(text.replace('instance_id: ', 'instance_id|sounds: '))
  await page.getByText('1 error').waitFor()
  const faults = page.getByRole('list', { name: 'Errors' })
  expect(await faults.textContent()).toContain('Line 6')
  expect(await save.isDisabled()).toBe(true)
  await faults.getByRole('button', { name: /^Line 6, column/ }).click()
  const caret = (await page.evaluate(
    'document.activeElement.value.slice(0, document.activeElement.selectionStart)',
  )) as string
  expect(caret.split('\n')).toHaveLength(6)
  await field.fill(text.replace('gte: 3', 'gte: 4'))
  await page.getByText('1 of 2 tests pass').waitFor()
  expect(await faults.getByRole('button').textContent()).toContain(
    `Line ${text.split('\n').findIndex((line) => line.includes('match:')) + 2}, `,
  )
  expect(await save.isDisabled()).toBe(true)
  await field.fill(text)
  await page.getByText('2 of 2 tests pass').waitFor()

  const backtest = page.getByRole('region', { name: 'Backtest', exact: true })
  await backtest.getByRole('button', { name: 'Run', exact: true }).click()
  // The service is minutes old: the answer must not sound as if it were about seven days.
  await backtest
    .getByText(/^1 firing on 1 agent in the \d+ (s|min) of events that there are, 1 agent suspended in mode enforce\.$/)
    .waitFor()
  const backtested = page.getByRole('region', { name: 'Firings in the backtest' })
  await backtested.getByText('3 events', { exact: true }).click()
  expect(await backtested.getByRole('link', { name: /^#\d+$/ }).count()).toBe(3)

  await save.click()
  await page.waitForURL(/\/rules\/[0-9a-f-]{36}$/)
  const firings = page.getByRole('region', { name: 'Firings', exact: true })
  await firings.getByText('No firings in this period.').waitFor()
  await firedBy(page.url().slice(-36), () => callThrice(agent))
  await firings.getByText('none: mode observe').waitFor()
  await firings.getByRole('link', { name: agent }).waitFor()
  const chart = page.getByRole('region', { name: /^\d+ firings? in 7 days$/ })
  await chart.getByRole('button', { name: 'Table' }).click()
  await chart.getByRole('group', { name: 'Firings over time' }).waitFor()
  await firings.getByText('3 events', { exact: true }).click()
  await firings
    .getByRole('link', { name: /^#\d+$/ })
    .first()
    .click()
  await page.getByRole('dialog', { name: 'Event' }).getByText('A call').first().waitFor()
})

test('switches observe, alert and enforce, explains enforce before it, and saves another version', async () => {
  const agent = await newInstance(screens.service, 'enforced')
  const id = await createRule(agent)
  const modeOf = async () => (await screens.service.call<{ mode: string }>('GET', `/api/rules/${id}`)).body.mode
  const page = await screens.signedIn({ at: `/rules/${id}` })
  const mode = page.getByRole('group', { name: 'Mode' })
  expect(await mode.getByRole('button').allTextContents()).toEqual(['Observe', 'Alert', 'Enforce…'])
  await mode.getByRole('button', { name: 'Alert' }).click()
  await page.getByRole('button', { name: 'Alert', pressed: true }).waitFor()
  await mode.getByRole('button', { name: 'Enforce…' }).click()
  const dialog = page.getByRole('dialog', { name: /^Enforce Three calls/ })
  await dialog.getByText('suspends the agent for 15m').waitFor()
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  expect(await modeOf()).toBe('alert')
  await mode.getByRole('button', { name: 'Enforce…' }).click()
  await dialog.getByRole('button', { name: 'Enforce', exact: true }).click()
  await page.getByRole('button', { name: 'Enforce', pressed: true }).waitFor()
  expect(await modeOf()).toBe('enforce')

  const field = page.getByLabel('Text of the rule')
  await field.fill(
    textOf(agent, 'exceptions:\n  - { who: { tags: [team:data] }, reason: Migration, until: 2020-01-02 }\n'),
  )
  expect(await mode.getByRole('button', { name: 'Alert' }).isDisabled()).toBe(true)
  expect(await mode.getByRole('button', { name: 'Observe' }).isDisabled()).toBe(false)
  await page.getByRole('button', { name: 'Save as version 2' }).click()
  const exceptions = page.getByRole('region', { name: 'Exceptions' })
  await exceptions.getByText('tag team:data').waitFor()
  await exceptions.getByText('expired', { exact: true }).waitFor()
  await page.getByRole('region', { name: 'Versions' }).getByRole('link', { name: 'v1' }).click()
  await page.waitForURL('**version=1')
  await page.getByRole('button', { name: 'Edit this text' }).click()
  await page.getByRole('button', { name: 'Save as version 3' }).waitFor()
  await page.getByRole('button', { name: 'Discard changes' }).click()

  await mode.getByRole('button', { name: 'Observe' }).click()
  await page.getByRole('button', { name: 'Observe', pressed: true }).waitFor()
  // A text with mode enforce asks for confirmation like the button.
  await field.fill(`${textOf(agent)}mode: enforce\n`)
  await page.getByText('The text sets mode enforce').waitFor()
  await page.getByRole('button', { name: 'Save as version 3' }).click()
  await dialog.getByText('The text sets mode enforce').waitFor()
  await dialog.getByRole('button', { name: /^Cancel/ }).click()
  await dialog.waitFor({ state: 'detached' })
  expect(await modeOf()).toBe('observe')

  await page.getByRole('button', { name: 'Delete…' }).click()
  await page
    .getByRole('dialog', { name: /^Delete/ })
    .getByRole('button', { name: 'Delete rule' })
    .click()
  await page.waitForURL(/\/rules$/)
  const { status } = await screens.service.call('GET', `/api/rules/${id}`)
  expect(status).toBe(404)
})

test('says how many firings of an agent were beyond those of a minute', async () => {
  const agent = await newInstance(screens.service, 'flooding')
  const rule = {
    title: `Every call of ${agent}`,
    severity: 'info',
    detection: { call: { event_type: 'tool_call', instance_id: agent }, condition: 'call' },
  }
  const { status, text, body } = await screens.service.call<{ id: string }>('POST', '/api/rules', { body: rule })
  expect(status, text).toBe(201)
  const call = { severity: 'info', source: 'test', event_type: 'tool_call', description: 'A call', instance_id: agent }
  // More than the limit of firings of two minutes.
  const flood = Array.from({ length: 150 }, () => call)
  expect((await screens.service.call('POST', '/api/events/batch', { body: flood })).status).toBe(200)
  const suppressed = async () =>
    (await screens.service.call<{ suppressed_24h: number }>('GET', `/api/rules/${body.id}`)).body.suppressed_24h
  await until('the count of suppressed firings', suppressed, (count) => count > 0)
  const page = await screens.signedIn({ at: `/rules/${body.id}` })
  await page.getByRole('heading', { name: /firings in 7 days, \d+ more suppressed/ }).waitFor()
  await page.getByRole('button', { name: 'Run' }).click()
  await page.getByText(/more firings suppressed: a rule fires at most 60 times/).waitFor()
  await page.goto('/rules')
  await page
    .getByRole('row', { name: `Every call of ${agent}` })
    .getByText(/\d+ suppressed/)
    .waitFor()
})

test('needs no more than a keyboard, and keeps its filter in the address', async () => {
  const name = unique('keyed').slice(0, 14)
  const id = await createRule(name)
  const page = await screens.signedIn()
  await page.keyboard.press('g')
  await page.keyboard.press('r')
  await page.waitForURL('**/rules')
  await page.getByLabel('Filter by title').waitFor()
  await page.keyboard.press('/')
  await page.keyboard.type(name)
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: /^Observe 1$/ }).click()
  await page.waitForURL(`**/rules?q=${name}&show=observe`)
  await page.reload()
  await page.getByRole('link', { name: `Three calls of ${name}` }).waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/rules/${id}`)
  await page.getByRole('button', { name: '24 h', exact: true }).last().click()
  await page.waitForURL('**days=1')
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').waitFor()
  await page.keyboard.type('new rule')
  await page.keyboard.press('Enter')
  await page.waitForURL('**/rules/new')
})

test('lets a viewer look but change nothing, and makes nothing of hostile texts', async () => {
  const agent = await newInstance(screens.service, 'looked')
  const { body } = await screens.service.call<{ id: string }>('POST', '/api/rules', {
    body: {
      title: `${unseen}${markup}`,
      description: `${markup}${unseen}`,
      severity: 'warning',
      detection: { by: { instance_id: agent }, condition: 'by' },
    },
  })
  await firedBy(body.id, () => postEvent(screens.service, { description: 'Seen', instance_id: agent }))
  const page = await screens.signedIn({ at: '/rules', key: await createKey(screens.service, { scope: 'viewer' }) })
  expect(
    await page.getByRole('button', { name: /^New rule \(requires a key with scope operator or admin\)/ }).isDisabled(),
  ).toBe(true)
  await page.getByRole('link', { name: 'U+202Etxt.exe' }).first().click()
  await page.waitForURL(`**/rules/${body.id}`)
  await page.getByRole('heading', { level: 1 }).getByText('U+202E').waitFor()
  await page.getByText('Changing rules requires a key with scope operator').waitFor()
  for (const name of ['Observe', 'Alert', 'Enforce…', 'Delete…']) {
    expect(await page.getByRole('button', { name, exact: true }).isDisabled(), name).toBe(true)
  }
  expect(await page.getByLabel('Text of the rule').count()).toBe(0)
  expect(await page.getByRole('button', { name: 'Run', exact: true }).count()).toBe(0)
  await page.getByRole('region', { name: 'Firings', exact: true }).getByRole('link', { name: agent }).first().waitFor()
  expect(await page.locator('img').count()).toBe(0)
  await page.goto('/rules/new')
  await page.getByText('Saving rules requires a key with scope operator').waitFor()
})

test('shows rules of files as they are, says where to change them, and which file is not loaded', async () => {
  const page = await screens.signedIn({ at: '/rules?q=kept.yml' })
  const faults = page.getByRole('region', { name: '1 file not loaded' })
  await faults.getByText('broken.yml').waitFor()
  await faults.getByText(/detection|severity/).waitFor()
  await page.getByRole('link', { name: 'Kept in git' }).click()
  await page.getByText('This rule is loaded from the file kept.yml: edit the file to change it.').waitFor()
  for (const name of ['Observe', 'Alert', 'Enforce…', 'Delete…']) {
    expect(await page.getByRole('button', { name, exact: true }).isDisabled(), name).toBe(true)
  }
  expect(await page.getByLabel('Text of the rule').count()).toBe(0)
  await page.getByRole('button', { name: 'Run', exact: true }).waitFor()
})

test('sets the mode of a pack in one press, after it says how many rules that changes', async () => {
  const agent = await newInstance(screens.service, 'packed')
  const pack = unique('pack').slice(0, 14)
  const ids = [
    await createRule(agent, `mode: enforce\ntags: [pack.${pack}]\n`),
    await createRule(agent, `tags: [pack.${pack}]\n`),
    await createRule(agent, `mode: alert\ntags: [pack.${pack}]\n`),
  ]
  const modes = () =>
    Promise.all(
      ids.map(async (id) => (await screens.service.call<{ mode: string }>('GET', `/api/rules/${id}`)).body.mode),
    )
  const page = await screens.signedIn({ at: '/rules' })
  const control = page.getByRole('group', { name: `Mode of ${pack}` })
  await control.getByRole('button', { name: 'Alert…' }).click()
  const dialog = page.getByRole('dialog', { name: `Alert: all rules of ${pack}?` })
  await dialog.getByText('2 rules will alert, 1 does already.').waitFor()
  await dialog.getByText('1 of them does more now: 1 enforces.').waitFor()
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  expect(await modes()).toEqual(['enforce', 'observe', 'alert'])
  await control.getByRole('button', { name: 'Alert…' }).click()
  await dialog.getByRole('button', { name: 'Set mode alert' }).click()
  await page.getByText('2 rules set to alert.').waitFor()
  expect(await modes()).toEqual(['alert', 'alert', 'alert'])
  await control.getByRole('button', { name: 'Alert', pressed: true }).waitFor()
  const viewer = await createKey(screens.service, { scope: 'viewer' })
  const reader = await screens.signedIn({ key: viewer, at: '/rules' })
  expect(
    await reader
      .getByRole('group', { name: `Mode of ${pack}` })
      .getByRole('button', { name: 'Enforce…' })
      .isDisabled(),
  ).toBe(true)
})

test('marks what a rule matched, makes a rule from an event, and excepts an agent after showing the change', async () => {
  const agent = await newInstance(screens.service, 'marked')
  const id = await createRule(agent, 'mode: alert\n')
  const metadata = { toolName: 'Bash', action: 'execute', command: `cat .env ${markup}` }
  const report = () =>
    postEvent(screens.service, {
      event_type: 'tool_call',
      description: `A call ${markup}`,
      instance_id: agent,
      metadata,
    })
  const detection = { cat: { instance_id: agent, 'metadata.command|contains': ['.env', 'onerror'] }, condition: 'cat' }
  const rule = { title: `Reads ${agent}`, severity: 'warning', mode: 'observe', detection }
  const { body } = await screens.service.call<{ id: string }>('POST', '/api/rules', { body: rule })
  await firedBy(id, report)
  await firedBy(body.id, report)
  const { events } = (
    await screens.service.call<{ events: { seq: number }[] }>(
      'GET',
      `/api/events?event_type=tool_call&instance_id=${agent}`,
    )
  ).body
  const seq = events[0]!.seq
  const page = await screens.signedIn({ at: `/events?open=${seq}&rule=${body.id}` })
  const drawer = page.getByRole('dialog', { name: 'Event' })
  await drawer.getByRole('link', { name: `Reads ${agent}` }).waitFor()
  // In the list of matches, the facts and the metadata.
  expect(await drawer.locator('mark').allTextContents()).toEqual([agent, '.env', '.env', '.env'])
  expect(await page.locator('img').count()).toBe(0)

  await drawer.getByRole('button', { name: 'Make a rule from this event' }).click()
  await page.waitForURL(`**/rules/new?event=${seq}`)
  await page.getByText('2 of 2 tests pass').waitFor()
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await page.getByText(/^\d+ firings? on 1 agent in /).waitFor()

  // From the alert of the other rule, which reports its firing.
  const alerts = await until(
    'the alert',
    () =>
      screens.service.call<{ alerts: { id: string }[] }>(
        'GET',
        `/api/alerts?event_type=rule_matched&instance_id=${agent}&min_severity=info`,
      ),
    (answer) => answer.body.alerts.length > 0,
  )
  await page.goto(`/alerts?alert=${alerts.body.alerts[0]!.id}`)
  await page
    .getByRole('region', { name: `Matched by Three calls of ${agent}` })
    .getByRole('button', { name: 'Except…' })
    .click()
  const dialog = page.getByRole('dialog', { name: /^Exception of/ })
  await dialog.getByLabel('Reason').fill(markup)
  await dialog.getByRole('button', { name: 'Show change' }).click()
  const added = dialog.getByRole('region', { name: 'Change of the rule' })
  await added.getByText('+ exceptions:').waitFor()
  // The case of the rule that must match is about this agent's prefix, not about this agent.
  await dialog.getByText('The tests of the rule pass.').waitFor()
  await dialog.getByRole('button', { name: 'Save as version 2' }).click()
  await dialog.waitFor({ state: 'detached' })
  const saved = await screens.service.call<{ version: number; document: { exceptions: object[] } }>(
    'GET',
    `/api/rules/${id}`,
  )
  expect(saved.body).toMatchObject({
    version: 2,
    document: { exceptions: [{ who: { instances: [agent] }, reason: markup }] },
  })
})
