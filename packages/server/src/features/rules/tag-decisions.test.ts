import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ContainmentPlan, InstanceList, RuleBacktest } from '@wardline/contract'
import { afterEach, describe, expect, it } from 'vitest'
import { isoTime, minuteMs } from '../../clock.ts'
import { openRuleService, type RuleService, shellRule, toolCall } from '../../testing/rule-service.ts'

const open: RuleService[] = []
afterEach(async () => {
  for (const service of open.splice(0).reverse()) await service[Symbol.asyncDispose]()
})

/** `agent-own` gives itself the tag, `agent-given` has it from an operator, `agent-key` from its key. */
const tag = 'team:x'
async function service(env: Record<string, string> = {}): Promise<RuleService> {
  const on = await openRuleService({ env: { WARDLINE_AUTO_SUSPEND_FLEET_PERCENT: '100', ...env } })
  open.push(on)
  await on.runRules()
  const beat = (id: string, more: object = {}) => ({ body: { instance_id: id, name: id, ...more } })
  const { body } = await on.call<{ key: string }>('POST', '/api/keys', {
    body: { scope: 'agent', name: 'k', instances: ['agent-key'], tags: [tag] },
  })
  await on.call('POST', '/api/heartbeat', { key: body.key, ...beat('agent-key') })
  await on.call('POST', '/api/heartbeat', beat('agent-own', { tags: [tag] }))
  for (const id of ['agent-given', 'agent-none']) await on.call('POST', '/api/heartbeat', beat(id))
  await on.call('PUT', '/api/instances/agent-given/tags', { body: { tags: [tag] } })
  return on
}

const agents = ['agent-own', 'agent-given', 'agent-key', 'agent-none']
const trusted = ['agent-given', 'agent-key']
const fired = async (on: RuleService, id: string) => (await on.firings(id)).map(({ instance_id }) => instance_id).sort()
const suspended = async (on: RuleService) =>
  (await on.rows<{ id: string }>('select id from instances where suspended = 1 order by id')).map(({ id }) => id)
const reportAll = async (on: RuleService) => {
  await on.report(...agents.map((id) => toolCall('shell-exec', id)))
  await on.runRules()
}

// Attack: an agent sends the tag of an exception, of a response or of those that are resumed with its heartbeat.
describe('a tag that an agent gives itself', () => {
  const exceptions = [{ who: { tags: ['team:*'] }, reason: 'batch', until: '2100-01-01' }]
  it.each([
    ['an exception of a rule', { exceptions }],
    [
      'a selection of a rule',
      {
        detection: { shell: { tool: 'shell-exec' }, team: { tags: tag }, condition: 'shell and not team' },
        tests: undefined,
      },
    ],
  ])('does not exempt it by %s, live and in a backtest', async (_name, more) => {
    const on = await service()
    const from = isoTime(on.clock.now() - minuteMs)
    const id = await on.create(shellRule(more))
    await reportAll(on)
    expect(await fired(on, id)).toEqual(['agent-none', 'agent-own'])
    on.clock.advance(1)
    const body = { id, from, to: isoTime(on.clock.now()) }
    const answer = await on.call<RuleBacktest>('POST', '/api/rules/backtest', { body })
    expect(answer.body).toMatchObject({ firings: 2, instances: 2 })
  })

  it('takes no place among those that a rule suspends by tag, live and in a backtest', async () => {
    const on = await service()
    const from = isoTime(on.clock.now() - minuteMs)
    const id = await on.create(shellRule({ mode: 'enforce', response: [{ action: 'suspend_tag', tag }] }))
    await on.report(toolCall('shell-exec', 'agent-none'))
    await on.runRules()
    expect(await suspended(on)).toEqual(trusted)
    on.clock.advance(1)
    const body = { id, from, to: isoTime(on.clock.now()) }
    expect((await on.call<RuleBacktest>('POST', '/api/rules/backtest', { body })).body).toMatchObject({
      suspensions: 2,
    })
  })

  it('adds it to a fleet stop and to a drill, but not to a resume, which says why', async () => {
    const on = await service()
    const select = async (action: string) => {
      const body = { action, selector: { tags: [tag] }, reason: 'x', dry_run: true }
      return on.call<ContainmentPlan & { error: string }>('POST', '/api/containments', { body })
    }
    expect((await select('suspend')).body.instances).toEqual(['agent-given', 'agent-key', 'agent-own'])
    const drill = await on.call<{ selected: number }>('POST', '/api/drills', { body: { selector: { tags: [tag] } } })
    expect(drill.body.selected).toBe(3)
    for (const id of agents) await on.call('POST', `/api/kill/${id}`, { body: { reason: 'test' } })
    expect((await select('resume')).body.instances).toEqual(trusted)
    for (const id of trusted) await on.call('PUT', `/api/instances/${id}/tags`, { body: { tags: [] } })
    const { status, body } = await select('resume')
    expect([status, body.error]).toEqual([
      400,
      `Agents gave the tag ${tag} to themselves, which does not count for a resume: select instances, or set the tag with \`wardline instances tag\`.`,
    ])
  })

  it('adds it to the calls of an enforcement point, but while it is suspended it cannot join those that are released', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'wardline-points-'))
    const file = join(folder, 'points.json')
    const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
    writeFileSync(file, JSON.stringify([{ name: 'lever', url: 'http://127.0.0.1:9/', secret, tags: [tag] }]), {
      mode: 0o600,
    })
    try {
      const on = await service({ WARDLINE_ENFORCEMENT_FILE: file })
      for (const id of agents) await on.call('POST', `/api/kill/${id}`, { body: { reason: 'test' } })
      await on.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-none', name: 'n', tags: [tag] } })
      for (const id of agents) expect((await on.call('POST', `/api/resume/${id}`)).status).toBe(200)
      const calls = await on.rows('select instance_id, action from enforcement_calls order by instance_id, version')
      const both = (id: string) => ['suspend', 'resume'].map((action) => ({ instance_id: id, action }))
      expect(calls).toEqual(['agent-given', 'agent-key', 'agent-own'].flatMap(both))
      await on.services.enforcement.whenIdle()
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('shows in lists and filters, beside the tags that count', async () => {
    const on = await service()
    const { body } = await on.call<InstanceList>('GET', `/api/instances?tag=${tag}`)
    expect(body.instances.map(({ id, tags, operator_tags }) => [id, tags, operator_tags])).toEqual([
      ['agent-given', [tag], [tag]],
      ['agent-key', [tag], [tag]],
      ['agent-own', [tag], []],
    ])
  })
})
