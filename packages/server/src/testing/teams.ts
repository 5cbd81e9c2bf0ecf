import type { KeyCreated } from '@wardline/contract'
import { expect } from 'vitest'
import { openTestService, type TestService } from './service.ts'

const teams = { 'a-1': ['team:a', 'env:prod'], 'a-2': ['team:a'], 'b-1': ['team:b', 'env:prod'], 'b-2': ['team:b'] }

/** A service with agents of two teams, and callers who are limited to team:a. */
export interface TeamService extends TestService {
  /** Operator key limited to team:a. */
  limited: string
  /** Another one, of another operator. */
  second: string
  /** Agents of others are there, and one that only says of itself that it is of team:a. */
  hasOthers: boolean
  beat(id: string, more?: object): Promise<unknown>
  setTags(id: string, tags: string[]): Promise<void>
}

/** `hasOthers`: false for a service that never had agents besides those of team:a. */
export async function openTeamService(hasOthers: boolean, env: Record<string, string> = {}): Promise<TeamService> {
  const service = await openTestService({ env })
  const limitedKey = async (name: string) => {
    const body = { scope: 'operator', name, tags_scope: ['team:a'] }
    const created = await service.call<KeyCreated>('POST', '/api/keys', { body })
    expect(created.status, created.text).toBe(201)
    return created.body.key
  }
  const beat = (id: string, more: object = {}) =>
    service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id, ...more } })
  const setTags = async (id: string, tags: string[]) => {
    expect((await service.call('PUT', `/api/instances/${id}/tags`, { body: { tags } })).status).toBe(200)
  }
  const limited = await limitedKey('one')
  const second = await limitedKey('two')
  for (const [id, tags] of Object.entries(teams)) {
    if (!hasOthers && !tags.includes('team:a')) continue
    await beat(id)
    await setTags(id, tags)
  }
  if (hasOthers) {
    await beat('claims-a', { tags: ['team:a'] })
    await beat('untagged')
  }
  return Object.assign(service, { limited, second, hasOthers, beat, setTags })
}

const replaced =
  /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\b[0-9a-f]{64}\b|\d{4}-\d\d-\d\dT[\d:.]+Z|"(?:by|confirmed_by|seq|next|key|value)":"?[^",}]+"?/g

/** The text of an answer, in which ids, times and numbers of entries are counted in the order of their first occurrence. */
function normalized(text: string): string {
  const known: string[] = []
  return text.replace(replaced, (found) => {
    if (!known.includes(found)) known.push(found)
    const [, name] = /^"(\w+)":/.exec(found) ?? []
    return `${name ? `"${name}":` : ''}<${known.indexOf(found)}>`
  })
}

/** Answers of a service to the same requests with and without the agents of others. */
export interface TeamPair extends AsyncDisposable {
  shared: TeamService
  alone: TeamService
  /** Runs the steps on both, and expects the same answers. Resolves with those of the shared service. */
  same<Answer extends { status: number; text: string }>(ask: (service: TeamService) => Promise<Answer>): Promise<Answer>
}

export async function openTeamPair(env: Record<string, string> = {}): Promise<TeamPair> {
  const shared = await openTeamService(true, env)
  const alone = await openTeamService(false, env)
  return {
    shared,
    alone,
    async same(ask) {
      const answer = await ask(shared)
      const expected = await ask(alone)
      expect([answer.status, normalized(answer.text)]).toEqual([expected.status, normalized(expected.text)])
      return answer
    },
    async [Symbol.asyncDispose]() {
      await shared[Symbol.asyncDispose]()
      await alone[Symbol.asyncDispose]()
    },
  }
}
