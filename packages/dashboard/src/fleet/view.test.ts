import { expect, test } from 'vitest'
import type { Agent } from '../data/fleet.ts'
import { countsText, fleetItems, type GroupCounts, groupsWith } from './view.ts'

const agent = (id: string) => ({ id }) as Agent
const group = (name: string, counts: Partial<GroupCounts>): GroupCounts => ({
  name,
  all: 1,
  suspended: 0,
  unconfirmed: 0,
  offline: 0,
  ...counts,
})
const groups = [group('lab', { offline: 1 }), group('prod', { all: 2_000, suspended: 1 }), group('', {})]

test('puts the loaded agents under their groups, and hides collapsed ones', () => {
  const pages = [
    { group: 'lab', agents: [agent('c')], next: null },
    { group: 'prod', agents: [agent('a')], next: 'more' },
    { group: 'prod', agents: [agent('b')], next: null },
  ]
  const lines = (closed?: string[]) =>
    fleetItems(pages, groups, closed).map((item) =>
      item.kind === 'group' ? `[${item.name}] ${item.counts.all}` : item.agents[0].id,
    )
  expect(lines()).toEqual(['[lab] 1', 'c', '[prod] 2000', 'a', 'b', '[] 1'])
  expect(lines(['prod', ''])).toEqual(['[lab] 1', 'c', '[prod] 2000', '[] 1'])
  expect(fleetItems(pages, undefined).map(({ agents }) => agents[0]?.id)).toEqual(['c', 'a', 'b'])
})

test('leaves out groups without an agent of the status', () => {
  const names = (status: Parameters<typeof groupsWith>[1]) => groupsWith(groups, status).map(({ name }) => name)
  expect(names('active')).toEqual(['prod', ''])
  expect(names('suspended')).toEqual(['prod'])
  expect(names('unconfirmed')).toEqual([])
  expect(names('asked')).toEqual(['lab', 'prod', ''])
  expect(countsText(groups[1]!)).toBe('2,000 agents, 1 suspended')
})
