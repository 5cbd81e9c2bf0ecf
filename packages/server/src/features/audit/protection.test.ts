import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type AlertReceiver, startAlertReceiver } from '../../testing/alert-receiver.ts'
import { openRuleService, type RuleService, shellRule } from '../../testing/rule-service.ts'
import { reductionOf } from './protection.ts'

let receiver: AlertReceiver
let service: RuleService
let operator: { id: string; key: string }

const open = (env: Record<string, string> = {}) =>
  openRuleService({
    env: { SLACK_WEBHOOK_URL: `${receiver.url}/slack`, DISCORD_WEBHOOK_URL: `${receiver.url}/discord`, ...env },
  })
beforeEach(async () => {
  receiver = await startAlertReceiver()
  service = await open()
  operator = await service.createKey('operator')
})
afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

async function call<Body = { id: string }>(method: 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown) {
  const { key } = operator
  const answer = await service.call<Body>(method, path, { key, ...(body === undefined ? {} : { body }) })
  expect(answer.status, answer.text).toBeLessThan(300)
  return answer.body
}

async function dispatch(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    await service.services.dispatcher.run()
    await service.services.dispatcher.whenIdle()
  }
}
const receivedAt = (path: string) =>
  receiver.taken.filter((alert) => alert.path.startsWith(path)).map(({ body }) => JSON.stringify(body))
const changes = () =>
  service.rows<{ severity: string; description: string; by_service: number; instance_id: string | null }>(
    `select severity, description, by_service, instance_id from alerts where event_type = 'protection_changed' order by seq`,
  )
const inAnHour = () => new Date(service.clock.now() + 3_600_000).toISOString()
const newDecoy = (more: object = { type: 'api_key', keyType: 'openai' }) =>
  call('POST', '/api/honeypots', { instanceId: 'bot', label: 'In the safe of the mail bot', ...more })
const newRule = (more: object) => call('POST', '/api/rules', shellRule(more))
/** Replaces a rule that suspends. */
async function replace(more: object) {
  const rule = { mode: 'enforce', response: [{ action: 'suspend' }] }
  return call('PUT', `/api/rules/${(await newRule(rule)).id}`, shellRule({ ...rule, ...more }))
}
const beat = () => service.call('POST', '/api/heartbeat', { body: { instance_id: 'bot', name: 'Bot' } })
async function newBaseline(): Promise<void> {
  await beat()
  const description = JSON.stringify({ shell_exec_count: 3 })
  const event = { severity: 'info', source: 'bot', instance_id: 'bot', event_type: 'session_metrics', description }
  expect((await service.call('POST', '/api/events', { body: event })).status).toBe(201)
}

/** Every change that reduces protection, but those of alerting itself: `alerting_changed` has its own tests. */
const reductions: [string, 'warning' | 'critical', RegExp, () => Promise<unknown>][] = [
  [
    'ignores a tool for decoys',
    'critical',
    /had the service ignore decoy hits by the tool "backup" until 20.*Z \(ignore rule [\w-]{36}\)\.$/,
    () => call('POST', '/api/honeypots/ignores', { tool: 'backup', reason: 'Nightly', until: inAnHour() }),
  ],
  [
    'deletes a decoy key',
    'critical',
    /deleted the decoy [\w-]{36}, a key\.$/,
    async () => call('DELETE', `/api/honeypots/${(await newDecoy()).id}`),
  ],
  [
    'deletes a decoy path',
    'critical',
    /deleted the decoy [\w-]{36}, a path\.$/,
    async () =>
      call('DELETE', `/api/honeypots/${(await newDecoy({ type: 'file_path', path: '/srv/safe/id_rsa' })).id}`),
  ],
  [
    'lowers the mode of a rule from enforce to alert',
    'critical',
    /lowered the mode of the rule .* from enforce to alert\.$/,
    async () => call('POST', `/api/rules/${(await newRule({ mode: 'enforce' })).id}/mode`, { mode: 'alert' }),
  ],
  [
    'lowers the mode of a rule from alert to observe',
    'critical',
    /lowered the mode of the rule .* from alert to observe\.$/,
    async () => call('POST', `/api/rules/${(await newRule({ mode: 'alert' })).id}/mode`, { mode: 'observe' }),
  ],
  [
    'lowers the mode of a rule with its text',
    'critical',
    /lowered the mode of the rule .* from enforce to observe\.$/,
    async () =>
      call(
        'PUT',
        `/api/rules/${(await newRule({ mode: 'enforce' })).id}`,
        shellRule({ mode: 'observe', title: 'New' }),
      ),
  ],
  [
    'replaces a rule that alerts, for example by one with an exception for most agents',
    'warning',
    /replaced the rule [\w-]{36}, which is in mode alert \(changed: exceptions\)\.$/,
    async () => {
      const exceptions = [{ who: { instances: ['agent-*'] }, reason: 'Migration', until: inAnHour() }]
      return call(
        'PUT',
        `/api/rules/${(await newRule({ mode: 'alert' })).id}`,
        shellRule({ mode: 'alert', exceptions }),
      )
    },
  ],
  [
    'replaces the detection of a rule that enforces by one that never matches',
    'critical',
    /replaced the rule [\w-]{36}, which is in mode enforce \(changed: detection\)\.$/,
    () =>
      replace({
        detection: { shell: { event_type: 'unused' }, condition: 'shell' },
        tests: { match: [[{ event_type: 'unused' }]], no_match: [[{ event_type: 'tool_call' }]] },
      }),
  ],
  [
    'removes the response of a rule that enforces',
    'critical',
    /replaced the rule [\w-]{36}, which is in mode enforce \(changed: response\)\.$/,
    () => replace({ response: undefined }),
  ],
  [
    'weakens the response of a rule that enforces',
    'critical',
    /replaced the rule [\w-]{36}, which is in mode enforce \(changed: response\)\.$/,
    () => replace({ response: [{ action: 'alert' }] }),
  ],
  [
    'replaces the title of a rule that enforces',
    'warning',
    /replaced the rule [\w-]{36}, which is in mode enforce\.$/,
    () => replace({ title: 'New' }),
  ],
  [
    'deletes a rule that enforces',
    'critical',
    /deleted the rule [\w-]{36}, which was in mode enforce\.$/,
    async () => call('DELETE', `/api/rules/${(await newRule({ mode: 'enforce' })).id}`),
  ],
  [
    'deletes a rule that observes',
    'warning',
    /deleted the rule [\w-]{36}, which was in mode observe\.$/,
    async () => call('DELETE', `/api/rules/${(await newRule({ mode: 'observe' })).id}`),
  ],
  [
    'deletes an instance',
    'warning',
    /deleted the instance bot\.$/,
    async () => {
      await beat()
      operator = await service.createKey('admin')
      return call('DELETE', '/api/instances/bot')
    },
  ],
  [
    'resets a baseline',
    'warning',
    /reset the baseline bot shell_exec_count: it is learned again\.$/,
    async () => {
      await newBaseline()
      return call('POST', '/api/instances/bot/baselines/shell_exec_count/reset')
    },
  ],
]

// An attacker with a stolen operator key would first remove what could detect the attack.
describe('every channel', () => {
  it.each(reductions)('is notified of an operator who %s', async (_, severity, text, change) => {
    await change()
    const [alert, ...others] = await changes()
    expect(others).toEqual([])
    expect(alert).toMatchObject({ severity, by_service: 1, instance_id: null })
    expect(alert!.description).toMatch(/^(operator|admin) of a test /)
    expect(alert!.description).toMatch(text)
    await dispatch()
    for (const path of ['/slack', '/discord']) {
      const messages = receivedAt(path).filter((message) => message.includes(' of a test '))
      expect(messages, path).toHaveLength(1)
      // Alerts reach many people, and their texts are quoted in tickets.
      expect(messages.join()).not.toMatch(/mail bot|srv\/safe/)
    }
  })
})

describe('a change that reduces protection', () => {
  // An attacker would silence the alert, or route it away, before the change.
  it('is reported despite silences, routes and minimum severities', async () => {
    const ends_at = inAnHour()
    await call('POST', '/api/silences', { match: { types: ['protection_changed'] }, reason: 'x', ends_at })
    await call('POST', '/api/silences', { match: {}, reason: 'x', ends_at })
    const route = { name: 'r', match: { types: ['nothing'] }, channels: ['env-slack', 'env-discord'] }
    await call('POST', '/api/alert-routes', route)
    await call('DELETE', `/api/honeypots/${(await newDecoy()).id}`)
    await dispatch()
    for (const path of ['/slack', '/discord']) {
      expect(
        receivedAt(path).filter((message) => message.includes('deleted the decoy')),
        path,
      ).toHaveLength(1)
    }
  })

  // A flood of changes would otherwise cost the channel its attention.
  it('is joined with further ones', async () => {
    for (let count = 0; count < 15; count++) await call('DELETE', `/api/honeypots/${(await newDecoy()).id}`)
    await dispatch()
    expect(await changes()).toHaveLength(15)
    expect(receivedAt('/slack').filter((message) => message.includes('deleted the decoy'))).toHaveLength(1)
  })

  // Otherwise a crash or a full disk between the two would hide the change.
  it('is only made together with its alert', async () => {
    const { id } = await newDecoy()
    const rule = await newRule({ mode: 'enforce' })
    const allow = await service.refuse('insert', 'alerts')
    for (const path of [`/api/honeypots/${id}`, `/api/rules/${rule.id}`]) {
      expect((await service.call('DELETE', path, { key: operator.key })).status).toBe(500)
    }
    await allow()
    const { body } = await service.call<{ deleted_at: string | null }>('GET', `/api/honeypots/${id}`)
    expect(body.deleted_at).toBeNull()
    expect((await service.call('GET', `/api/rules/${rule.id}`)).status).toBe(200)
    expect(await changes()).toEqual([])
  })

  it('is not one that only adds protection or changes what observes', async () => {
    const { id } = await call('POST', '/api/honeypots/ignores', { tool: 'x', reason: 'y', until: inAnHour() })
    expect(await changes()).toHaveLength(1)
    await call('DELETE', `/api/honeypots/ignores/${id}`)
    const decoy = await newDecoy()
    await call('POST', `/api/honeypots/${decoy.id}/rotate`)
    const rule = await newRule({ mode: 'observe' })
    await call('PUT', `/api/rules/${rule.id}`, shellRule({ mode: 'observe', title: 'New' }))
    for (const mode of ['alert', 'enforce', 'enforce']) await call('POST', `/api/rules/${rule.id}/mode`, { mode })
    expect(await changes()).toHaveLength(1)
  })

  const admin = (group: string | null, email: string | null) => ({ role: 'admin', group, email })
  const roles = { m1: admin('ops', null), m2: { role: 'viewer', group: 'all', email: null } }
  const warning = (text: string) => ({ severity: 'warning', text })
  const critical = (text: string) => ({ severity: 'critical', text })
  const calls = { instance_id: 'bot', tool: 'Bash(ls)', max_calls: 5, expires_at: '2026-01-01T00:00:00.000Z' }
  const enforced = { mode: 'enforce', version: 1 }

  it.each<[string, object | null, object | null, object | undefined]>([
    ['baseline.accept', null, null, warning('accepted the level of the baseline x as usual')],
    ['honeypot.create', null, null, undefined],
    [
      'list.change',
      null,
      { active_rules: 1, added: 2, removed: 0 },
      warning('changed the list x, which rules that alert or enforce use (2 added, 0 removed)'),
    ],
    [
      'list.change',
      null,
      { active_rules: 1, added: 0, removed: 1 },
      warning('changed the list x, which rules that alert or enforce use (0 added, 1 removed)'),
    ],
    ['list.change', null, { active_rules: 1, added: 0, removed: 0 }, undefined],
    ['list.change', null, { added: 2, removed: 1 }, undefined],
    [
      'allowance.create',
      null,
      calls,
      warning('allowed bot up to 5 calls of "Bash(ls)" without asking, until 2026-01-01T00:00:00.000Z'),
    ],
    [
      'passkey.create',
      null,
      { name: 'Phone "new"' },
      warning('registered the passkey "Phone \\"new\\"" of the local admin (x)'),
    ],
    [
      'people.only',
      { people_only: true },
      { people_only: false },
      warning('let keys open sessions again, beside people'),
    ],
    ['people.only', { people_only: false }, { people_only: true }, undefined],
    ['people.roles', roles, { m2: roles.m2 }, warning('changed which groups have which role')],
    ['people.roles', roles, roles, warning('changed which groups have which role')],
    [
      'people.roles',
      roles,
      { ...roles, m3: { role: 'operator', group: 'b', email: null } },
      warning('changed which groups have which role'),
    ],
    [
      'people.roles',
      roles,
      { ...roles, m3: admin(null, 'eve@example.com'), m4: admin('b', null) },
      critical('changed which groups have which role: 2 more of them admin'),
    ],
    [
      'people.roles',
      roles,
      { ...roles, m2: { ...roles.m2, role: 'admin' } },
      critical('changed which groups have which role: 1 more of them admin'),
    ],
    ['policy.mode', enforced, { mode: 'alert' }, critical('lowered the mode of the policy x from enforce to alert')],
    ['policy.delete', { mode: 'observe' }, null, warning('deleted the policy x, which was in mode observe')],
    // It decides for some agents.
    [
      'policy.delete',
      { mode: 'observe', enforce_for: true },
      null,
      critical('deleted the policy x, which was in mode observe'),
    ],
    [
      'policy.change',
      enforced,
      { mode: 'enforce', version: 2, changed: ['title', 'id', 'description', 'tests', 'mode'] },
      warning('replaced the policy x, which is in mode enforce'),
    ],
    [
      'policy.change',
      enforced,
      { mode: 'enforce', version: 2, changed: ['title', 'rules', 'default'] },
      critical('replaced the policy x, which is in mode enforce (changed: rules, default)'),
    ],
    [
      'policy.change',
      { mode: 'alert', version: 1 },
      { mode: 'enforce', version: 2, changed: ['rules'] },
      warning('replaced the policy x, which is in mode enforce (changed: rules)'),
    ],
    ['policy.change', enforced, { mode: 'enforce', version: 1, changed: [] }, undefined],
    ['policy.change', enforced, { mode: 'enforce', version: 2, changed: ['rules'], file: 'a.json' }, undefined],
    ['policy.change', { mode: 'observe', version: 1 }, { mode: 'observe', version: 2, changed: ['rules'] }, undefined],
  ])('is %s from %j to %j: %j', (action, before, after, reduction) => {
    const entry = { action, target: 'x', before, after } as Parameters<typeof reductionOf>[0]
    expect(reductionOf(entry)).toEqual(reduction)
  })
})

// Who may change the files of rules, but not the service, must not disable them unnoticed.
it('a rule whose file disappears or lowers its mode is reported, and an edited one is not', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-protection-'))
  await service[Symbol.asyncDispose]()
  service = await open({ WARDLINE_RULES_DIR: folder })
  const read = async () => {
    await service.services.ruleFiles.run(true)
    return (await changes()).map(({ description }) => description)
  }
  const write = (rule: object) => writeFileSync(join(folder, 'shell.json'), JSON.stringify(rule))
  write(shellRule({ mode: 'enforce' }))
  expect(await read()).toEqual([])
  write(shellRule({ mode: 'enforce', title: 'Another title' }))
  expect(await read()).toEqual([])
  write(shellRule({ mode: 'alert', title: 'A third title' }))
  expect(await read()).toEqual([
    expect.stringMatching(/^Wardline lowered the mode of the rule .* from enforce to alert\.$/),
  ])
  rmSync(join(folder, 'shell.json'))
  expect((await read())[1]).toMatch(/^Wardline deleted the rule .*, which was in mode alert: its file is gone\.$/)
  rmSync(folder, { recursive: true, force: true })
})
