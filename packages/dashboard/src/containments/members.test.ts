import { expect, test } from 'vitest'
import type { Agent } from '../data/fleet.ts'
import { withJoined } from './members.ts'

const agent = (id: string, tags: string[]) => ({ id, tags, operator_tags: tags }) as unknown as Agent
const tags_scope = null
const fleet = [agent('a', ['env:prod']), agent('b', ['env:prod']), agent('new', [])]

// An agent that registered during a stop has none of the tags that it reports, and a resume of the stop would leave it suspended.
test('a resume of a containment includes the agents that registered while it held', () => {
  expect(withJoined({ tags_scope, selector: { tags: ['env:prod'] }, joined: ['new'] }, fleet)).toEqual({
    instances: ['a', 'b', 'new'],
  })
  expect(withJoined({ tags_scope, selector: { instances: ['a'] }, joined: ['new'] }, fleet)).toEqual({
    instances: ['a', 'new'],
  })
  expect(withJoined({ tags_scope, selector: { all: true }, joined: ['new'] }, fleet)).toEqual({ all: true })
  expect(withJoined({ tags_scope, selector: { tags: ['env:prod'] }, joined: ['b'] }, fleet)).toEqual({
    tags: ['env:prod'],
  })
})

// Otherwise an operator without a limit who resumes what a team suspended would resume the agents of every team.
test('a resume of a containment of a team selects its agents alone', () => {
  const scope = { tags_scope: ['team:a'], joined: [] }
  const teams = [agent('a', ['team:a', 'env:prod']), agent('b', ['team:b', 'env:prod'])]
  expect(withJoined({ ...scope, selector: { all: true } }, teams)).toEqual({ instances: ['a'] })
  expect(withJoined({ ...scope, selector: { tags: ['env:prod'] } }, teams)).toEqual({ instances: ['a'] })
  expect(withJoined({ ...scope, selector: { instances: ['b'] } }, teams)).toEqual({ instances: ['b'] })
})
