import type { RuleExplanation, RuleFirings, RuleList, RuleStored } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { shellRule, toolCall } from '../../testing/rule-service.ts'
import { openTeamPair, type TeamPair, type TeamService } from '../../testing/teams.ts'

let pair: TeamPair
const ruleIds = new WeakMap<TeamService, string>()
beforeAll(async () => {
  pair = await openTeamPair()
  for (const service of [pair.shared, pair.alone]) await fill(service)
})
afterAll(() => pair[Symbol.asyncDispose]())

/** Lets a rule fire on agents of the team, and of others if wanted. */
async function fill(service: TeamService): Promise<void> {
  const { ruleRunner } = service.services
  const run = async () => {
    await ruleRunner.run()
    await ruleRunner.whenIdle()
  }
  const created = await service.call<RuleStored>('POST', '/api/rules', { body: shellRule({ tests: undefined }) })
  expect(created.status, created.text).toBe(201)
  ruleIds.set(service, created.body.id)
  await run()
  const ids = service.hasOthers ? ['b-1', 'a-1', 'claims-a', 'a-2', undefined, 'untagged'] : ['a-1', 'a-2']
  for (const id of ids) {
    const { instance_id: _none, ...nobody } = toolCall('shell-exec')
    const body = id === undefined ? nobody : toolCall('shell-exec', id)
    expect((await service.call('POST', '/api/events', { body })).status).toBe(201)
  }
  await run()
  service.clock.advance(60_000)
  if (service.hasOthers) {
    // The last firing is that of another agent.
    const body = toolCall('shell-exec', 'b-1')
    expect((await service.call('POST', '/api/events', { body })).status).toBe(201)
    await run()
  }
}

const get = <Body>(service: TeamService, path: string, key: string | undefined = service.limited) =>
  service.call<Body>('GET', path, { key })
const firingsOf = (service: TeamService, key?: string) =>
  get<RuleFirings>(service, `/api/rules/${ruleIds.get(service)}/firings`, key)

describe('rules for a caller limited to a team', () => {
  it('have the firings about its agents alone', async () => {
    const { body } = await pair.same((service) => firingsOf(service))
    expect(body.firings.map(({ instance_id }) => instance_id)).toEqual(['a-2', 'a-1'])
    expect(body.hours).toMatchObject([{ count: 2, suppressed: 0 }])
    const all = await pair.shared.call<RuleFirings>('GET', `/api/rules/${ruleIds.get(pair.shared)}/firings`)
    expect(all.body.firings).toHaveLength(7)
  })

  it('are listed and shown with these counts', async () => {
    const ofRule = async (service: TeamService) => {
      const { body } = await get<RuleList>(service, '/api/rules')
      const found = body.rules.find(({ id }) => id === ruleIds.get(service))!
      return { ...found, id: '' }
    }
    expect(await ofRule(pair.shared)).toEqual(await ofRule(pair.alone))
    expect(await ofRule(pair.shared)).toMatchObject({ firings_24h: 2, firings_7d: 2 })
    await pair.same((service) => get(service, `/api/rules/${ruleIds.get(service)}`))
  })

  it('explain the events of its agents; others are as unknown as none', async () => {
    const all = await pair.shared.call<RuleFirings>('GET', `/api/rules/${ruleIds.get(pair.shared)}/firings`)
    const explain = (seq: number) => get<RuleExplanation>(pair.shared, `/api/rule-matches?event=${seq}`)
    for (const { seq, instance_id } of all.body.firings) {
      const { status, text } = await explain(seq)
      if (instance_id?.startsWith('a-')) {
        expect([status, text]).toEqual([200, expect.stringContaining('shell-exec')])
      } else {
        const unknown = await explain(99_999)
        expect([status, text]).toEqual([404, unknown.text.replace('99999', String(seq))])
      }
    }
  })
})
