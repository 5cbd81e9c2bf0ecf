import { expect, test } from 'vitest'
import type { Agent } from '../data/fleet.ts'
import { withJoined } from './members.ts'

const agent = (id: string, tags: string[]) => ({ id, tags }) as unknown as Agent
const fleet = [agent('a', ['env:prod']), agent('b', ['env:prod']), agent('new', [])]

// An agent that registered during a stop has none of the tags that it reports, and a resume of the stop would leave it suspended.
test('a resume of a containment includes the agents that registered while it held', () => {
  expect(withJoined({ selector: { tags: ['env:prod'] }, joined: ['new'] }, fleet)).toEqual({
    instances: ['a', 'b', 'new'],
  })
  expect(withJoined({ selector: { instances: ['a'] }, joined: ['new'] }, fleet)).toEqual({ instances: ['a', 'new'] })
  expect(withJoined({ selector: { all: true }, joined: ['new'] }, fleet)).toEqual({ all: true })
  expect(withJoined({ selector: { tags: ['env:prod'] }, joined: ['b'] }, fleet)).toEqual({ tags: ['env:prod'] })
})
