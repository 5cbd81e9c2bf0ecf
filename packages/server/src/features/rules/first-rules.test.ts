import type { AuditEntry, RuleList } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'
import { addFirstRules } from './first-rules.ts'
import { starterRules } from './starter-rules.ts'

let service: TestService

beforeEach(async () => {
  service = await openTestService()
})
afterEach(() => service[Symbol.asyncDispose]())

const list = async () => (await service.call<RuleList>('GET', '/api/rules')).body.rules

describe('the first start on a new database', () => {
  it('adds the starter rules in mode observe, in the audit log as added by the service', async () => {
    await addFirstRules(service.deps)
    const rules = await list()
    expect(rules.map(({ title }) => title).sort()).toEqual(
      starterRules()
        .map(({ title }) => title)
        .sort(),
    )
    for (const rule of rules) {
      expect(rule).toMatchObject({ mode: 'observe', version: 1, file: null, changed_by: 'system' })
    }
    const { body } = await service.call<{ entries: AuditEntry[] }>('GET', '/api/audit')
    expect(body.entries).toHaveLength(rules.length)
    for (const { action, actor, target, after } of body.entries) {
      expect({ action, actor }).toEqual({ action: 'rule.create', actor: 'system' })
      expect(after).toMatchObject({ title: rules.find(({ id }) => id === target)!.title, mode: 'observe' })
    }
  })

  it('stores what they cost, as for any other rule', async () => {
    await addFirstRules(service.deps)
    await service.services.ruleRunner.run()
    const stored = await service.rows<{ cost: number | null }>('select cost from rules')
    expect(stored.filter(({ cost }) => cost === null)).toEqual([])
  })

  it('adds them once if several processes start together', async () => {
    await Promise.all([1, 2, 3].map(() => addFirstRules(service.deps)))
    expect(await list()).toHaveLength(starterRules().length)
  })
})

describe('any other start', () => {
  it('does not bring deleted rules back', async () => {
    await addFirstRules(service.deps)
    for (const { id } of await list()) await service.call('DELETE', `/api/rules/${id}`)
    await addFirstRules(service.deps)
    expect(await list()).toEqual([])
  })

  it('adds none to a database that agents or operators use', async () => {
    const event = { severity: 'info', source: 'agent-1', event_type: 'custom', description: 'x' }
    await service.call('POST', '/api/events', { body: event })
    await addFirstRules(service.deps)
    expect(await list()).toEqual([])
  })

  it('adds none to a database that was upgraded, even if nothing was stored in it', async () => {
    await service.execute('update schema_version set applied_at = applied_at - 86400000 where version < 40')
    await addFirstRules(service.deps)
    expect(await list()).toEqual([])
  })
})

it('adds none with WARDLINE_RULES_DIR, whose folder says which rules there are', async () => {
  await using withFolder = await openTestService({ env: { WARDLINE_RULES_DIR: service.deps.config.dataDir } })
  await addFirstRules(withFolder.deps)
  expect((await withFolder.call<RuleList>('GET', '/api/rules')).body.rules).toEqual([])
})
