import { describe, expect, test } from 'vitest'
import type { Agent } from '../data/fleet.ts'
import { countsOf } from '../data/fleet-counts.ts'
import { fleetItems, groupChoices, shownAgents, withText } from './view.ts'

const agent = (id: string, fields: Partial<Agent> = {}): Agent =>
  ({
    id,
    name: id,
    status: 'active',
    last_heartbeat: '2026-11-22T10:00:00.000Z',
    secondsAgo: 3,
    suspension_reason: null,
    tags: [],
    version: null,
    fail_mode: null,
    control: { version: 0, applied_version: null, confirmed: true },
    ...fields,
  }) as Agent
const unconfirmed = {
  status: 'suspended',
  control: { version: 1, applied_version: 0, confirmed: false },
} as Partial<Agent>
const names = (agents: readonly Agent[]) => agents.map(({ id }) => id)

describe('the list of the fleet', () => {
  const fleet = [
    agent('a', { tags: ['env:prod', 'finance'], version: '4.10.0', fail_mode: 'closed' }),
    agent('b', { tags: ['env:prod'], version: '4.9.0', ...unconfirmed }),
    agent('c', { tags: ['env:lab'], status: 'offline', fail_mode: 'open' }),
    agent('d', { enforcing_levers: ['process'], heard_by: ['hook', 'otlp'] }),
  ]

  test('filters by status and by words of the id, tags and version', () => {
    expect(names(withText(fleet, 'prod 4.9'))).toEqual(['b'])
    expect(names(withText(fleet, ' finance '))).toEqual(['a'])
    expect(names(shownAgents(fleet, { status: 'suspended' }))).toEqual(['b'])
    expect(names(shownAgents(fleet, { status: 'unconfirmed' }))).toEqual(['b'])
    expect(names(shownAgents(fleet, { status: 'asked' }))).toEqual(['a', 'b', 'c'])
    expect(names(shownAgents(fleet, { from: 'c' }))).toEqual(['c', 'd'])
    expect(names(shownAgents(fleet, { heard: 'hook' }))).toEqual(['d'])
    expect(countsOf(fleet)).toEqual({
      all: 4,
      active: 2,
      suspended: 1,
      unconfirmed: 1,
      unproven: 1,
      offline: 1,
      asked: 3,
      silent: 0,
    })
  })

  test('sorts versions numerically, and agents that fail open first', () => {
    expect(names(shownAgents(fleet, { sort: 'version', down: true }))).toEqual(['a', 'b', 'd', 'c'])
    expect(names(shownAgents(fleet, { sort: 'fails' }))[0]).toBe('c')
    expect(names(shownAgents(fleet, { sort: 'status' }))[0]).toBe('b')
  })

  test('puts each agent into one group, untagged agents last, and hides collapsed groups', () => {
    const lines = (group: string, closed?: string[]) =>
      fleetItems(fleet, { group, ...(closed ? { closed } : {}) }).map((item) =>
        item.kind === 'group' ? `[${item.name}] ${item.agents.length}` : item.agents[0].id,
      )
    expect(lines('env')).toEqual(['[lab] 1', 'c', '[prod] 2', 'a', 'b', '[] 1', 'd'])
    expect(lines('env', ['prod', ''])).toEqual(['[lab] 1', 'c', '[prod] 2', '[] 1'])
    expect(lines('tags')).toContain('[env:prod · finance] 1')
    expect(groupChoices(fleet)).toEqual(['tags', 'env'])
  })
})
