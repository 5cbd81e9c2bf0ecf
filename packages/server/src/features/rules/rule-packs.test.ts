import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type AuditEntry, type PackModeSet, packsOf, type RuleList } from '@wardline/contract'
import { expect, it } from 'vitest'
import { hourMs } from '../../clock.ts'
import { openRuleService, type RuleService, shellRule, toolCall } from '../../testing/rule-service.ts'
import { verifyAudit } from '../audit/audit.ts'
import { addFirstRules } from './first-rules.ts'

type Answer = PackModeSet & { error: string; faults?: { line: number }[] }

const setMode = (on: RuleService, pack: unknown, mode: string, key?: string) =>
  on.call<Answer>('POST', '/api/rules/mode', { body: { pack, mode }, ...(key === undefined ? {} : { key }) })
const listed = async (on: RuleService) => (await on.call<RuleList>('GET', '/api/rules')).body.rules
const modesOf = async (on: RuleService) => (await listed(on)).map(({ mode }) => mode)
const entriesOf = async (on: RuleService) =>
  (await on.call<{ entries: AuditEntry[] }>('GET', '/api/audit?action=rule.mode&limit=200')).body.entries
const mine = (more: object = {}) => shellRule({ tags: ['pack.mine'], ...more })

it('switches all starter rules of a pack in one request, with an audit entry for each, and no others', async () => {
  await using on = await openRuleService()
  await addFirstRules(on.deps)
  const pack = packsOf(await listed(on)).find(({ name }) => name === 'coding-agents')!
  const { status, body } = await setMode(on, 'coding-agents', 'alert')
  expect(status).toBe(200)
  expect(body).toMatchObject({ mode: 'alert', unchanged: 0, refused: [] })
  expect(body.changed.map(({ id }) => id).toSorted()).toEqual(pack.rules.map(({ id }) => id).toSorted())
  const rules = await listed(on)
  expect(rules.filter(({ mode }) => mode === 'alert').map(({ id }) => id)).toEqual(pack.rules.map(({ id }) => id))
  const entries = await entriesOf(on)
  expect(entries.map(({ target }) => target).toSorted()).toEqual(pack.rules.map(({ id }) => id).toSorted())
  for (const { before, after, actor } of entries) {
    expect({ before, after, actor }).toMatchObject({ before: { mode: 'observe' }, after: { mode: 'alert' } })
    expect(actor).not.toBe('system')
  }
  expect((await verifyAudit(on.deps.database)).ok).toBe(true)
})

it('switches rules that an operator tagged, and passes over those that are in the mode', async () => {
  await using on = await openRuleService()
  const first = await on.create(mine())
  await on.create(mine({ title: 'Also shell', mode: 'alert' }))
  await on.create(shellRule({ title: 'Of no pack', tags: ['pack.mines', 'other.mine'] }))
  const { body } = await setMode(on, 'mine', 'alert')
  expect(body).toEqual({ mode: 'alert', changed: [{ id: first, title: 'Shell' }], unchanged: 1, refused: [] })
  expect((await setMode(on, 'mine', 'alert')).body).toMatchObject({ changed: [], unchanged: 2 })
  expect(await entriesOf(on)).toHaveLength(1)
  await on.report(toolCall('shell-exec'))
  await on.runRules()
  expect((await on.firings(first)).map(({ mode }) => mode)).toEqual(['alert'])
})

it('alerts when a pack does less than before', async () => {
  await using on = await openRuleService()
  await on.create(mine({ mode: 'enforce' }))
  await on.create(mine({ title: 'Also shell', mode: 'enforce' }))
  expect((await setMode(on, 'mine', 'observe')).body.changed).toHaveLength(2)
  const alerts = (await on.call<{ alerts: { event_type: string }[] }>('GET', '/api/alerts')).body.alerts
  expect(alerts.filter(({ event_type }) => event_type === 'protection_changed').length).toBeGreaterThan(0)
})

it('changes no rule if one of the pack has no tests, and names it', async () => {
  await using on = await openRuleService()
  await on.create(mine())
  await on.create(mine({ title: 'Untested', tests: undefined }))
  const { status, body } = await setMode(on, 'mine', 'alert')
  expect(status).toBe(400)
  expect(body.error).toMatch(/^Untested \([0-9a-f-]{36}\): Line 2, column 3: The rule has no tests/)
  expect(body.faults).toMatchObject([{ line: 2 }])
  expect(await modesOf(on)).toEqual(['observe', 'observe'])
  expect(await entriesOf(on)).toEqual([])
})

it('changes no rule if one was changed while the tests ran', async () => {
  await using on = await openRuleService()
  const ids = [await on.create(mine()), await on.create(mine({ title: 'Also shell' }))]
  const answers = await Promise.all([setMode(on, 'mine', 'alert'), setMode(on, 'mine', 'enforce')])
  expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409])
  expect(new Set(await modesOf(on)).size).toBe(1)
  expect(await entriesOf(on)).toHaveLength(ids.length)
})

it('leaves rules of files to their files, and names them', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-packs-'))
  try {
    await using on = await openRuleService({ env: { WARDLINE_RULES_DIR: folder } })
    writeFileSync(join(folder, 'kept.yml'), JSON.stringify(mine({ title: 'Kept in git' })))
    await on.runRules()
    await on.services.ruleFiles.run(on.services.ruleRunner.isHolder)
    const alone = await setMode(on, 'mine', 'alert')
    expect([alone.status, alone.body.error]).toEqual([
      409,
      'The rules are read from the files kept.yml: change them there.',
    ])
    await on.create(mine())
    const { body } = await setMode(on, 'mine', 'alert')
    expect(body.changed.map(({ title }) => title)).toEqual(['Shell'])
    expect(body.refused).toMatchObject([{ title: 'Kept in git', file: 'kept.yml' }])
    expect((await listed(on)).map(({ title, mode }) => `${title} ${mode}`)).toEqual([
      'Kept in git observe',
      'Shell alert',
    ])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

it('refuses unknown packs, other modes, malformed names, and keys that may not operate', async () => {
  await using on = await openRuleService()
  await on.create(mine())
  const unknown = await setMode(on, 'yours', 'alert')
  expect([unknown.status, unknown.body.error]).toEqual([
    404,
    'No rule has the tag pack.yours; `wardline rules packs` lists the packs.',
  ])
  expect((await setMode(on, 'mine', 'off')).body.error).toMatch(/mode/)
  for (const pack of ['', 'Mine', 'pack mine', 'x'.repeat(96), 7]) {
    const { status, body } = await setMode(on, pack, 'alert')
    expect([status, body.error]).toEqual([400, expect.stringMatching(/pack/)])
  }
  for (const scope of ['viewer', 'agent'] as const) {
    expect((await setMode(on, 'mine', 'alert', (await on.createKey(scope)).key)).status).toBe(403)
  }
  expect((await setMode(on, 'mine', 'alert', (await on.createKey('operator')).key)).status).toBe(200)
})

it('counts firings of 7 days by rule and pack', async () => {
  await using on = await openRuleService()
  await on.create(mine())
  await on.report(toolCall('shell-exec'))
  await on.runRules()
  const counts = async () => {
    const [pack] = packsOf(await listed(on))
    return [pack!.rules[0]!.firings_24h, pack!.firings_7d]
  }
  expect(await counts()).toEqual([1, 1])
  on.clock.advance(6 * 24 * hourMs)
  expect(await counts()).toEqual([0, 1])
  on.clock.advance(25 * hourMs)
  expect(await counts()).toEqual([0, 0])
})
