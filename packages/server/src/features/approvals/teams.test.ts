import { randomUUID } from 'node:crypto'
import type { Allowance, Approval, ApprovalList } from '@wardline/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { askApproval, askingCall } from '../../testing/approvals.ts'
import { adminKey } from '../../testing/service.ts'
import { openTeamPair, type TeamPair, type TeamService } from '../../testing/teams.ts'

let pair: TeamPair
/** Ids of what the agents asked for, by agent. */
const asked = new Map<TeamService, Record<string, string[]>>()
const agents = ['a-1', 'b-1', 'claims-a', 'a-2', 'untagged', 'b-2']
beforeAll(async () => {
  pair = await openTeamPair()
  for (const service of [pair.shared, pair.alone]) {
    const ids: Record<string, string[]> = {}
    for (const id of agents.filter((agent) => service.hasOthers || agent.startsWith('a-'))) {
      for (const tool of ['first', 'second', 'third']) {
        service.clock.advance(1)
        const { body } = await askApproval(service, askingCall({ attempt: randomUUID(), tool }), { id })
        ids[id] = [...(ids[id] ?? []), body.id]
      }
    }
    asked.set(service, ids)
  }
})
afterAll(() => pair[Symbol.asyncDispose]())

const get = <Body>(service: TeamService, path: string, key = service.limited) =>
  service.call<Body & { error: string }>('GET', path, { key })
const decide = (service: TeamService, id: string, body: object = { decision: 'approve' }, key = service.limited) =>
  service.call<Approval & { error: string }>('POST', `/api/approvals/${id}`, { key, body })
const idOf = (service: TeamService, agent: string, index = 0) => asked.get(service)![agent]![index]!
const unknown = randomUUID()

it('a limited caller lists the approvals of the team, page by page, and their number', async () => {
  const { body } = await pair.same((service) => get<ApprovalList>(service, '/api/approvals'))
  expect(body.pending).toBe(6)
  expect(new Set(body.approvals.map(({ instance_id }) => instance_id))).toEqual(new Set(['a-1', 'a-2']))
  for (const query of ['limit=2', 'state=pending&limit=6', 'state=decided', 'instance_id=a-1', 'instance_id=b-1']) {
    await pair.same((service) => get(service, `/api/approvals?${query}`))
  }
  const all = await get<ApprovalList>(pair.shared, '/api/approvals', adminKey)
  expect(all.body.approvals).toHaveLength(18)
})

it.each(['b-1', 'claims-a', 'untagged'])('an approval of %s is as unknown as one that never was', async (agent) => {
  const id = idOf(pair.shared, agent)
  const sentence = (text: string) => text.replaceAll(id, '…').replaceAll(unknown, '…')
  const absent = await get(pair.shared, `/api/approvals/${unknown}`)
  const foreign = await get(pair.shared, `/api/approvals/${id}`)
  expect([foreign.status, sentence(foreign.text)]).toEqual([404, sentence(absent.text)])
  for (const body of [
    { decision: 'deny' },
    { decision: 'approve', for_minutes: 5 },
    { decision: 'deny', for_minutes: 5 },
  ]) {
    const decided = await decide(pair.shared, id, body)
    expect([decided.status, sentence(decided.text)]).toEqual([404, sentence(absent.text)])
  }
  const { body } = await get<Approval>(pair.shared, `/api/approvals/${id}`, adminKey)
  expect(body.state).toBe('pending')
})

it('a limited operator decides for the team, and sees and revokes its allowances only', async () => {
  await pair.same((service) => get(service, `/api/approvals/${idOf(service, 'a-1')}`))
  await pair.same((service) => decide(service, idOf(service, 'a-1'), { decision: 'deny', reason: 'No.' }))
  const allowing = { decision: 'approve', for_minutes: 5 }
  const operator = await pair.shared.createKey('operator')
  const foreign = await decide(pair.shared, idOf(pair.shared, 'b-1'), allowing, operator.key)
  expect(foreign.status).toBe(200)
  await pair.same((service) => decide(service, idOf(service, 'a-2'), allowing))
  const { body } = await pair.same((service) => get<{ allowances: Allowance[] }>(service, '/api/allowances'))
  expect(body.allowances.map(({ instance_id }) => instance_id)).toEqual(['a-2'])
  const revoke = (id: string) =>
    pair.shared.call<{ error: string }>('DELETE', `/api/allowances/${id}`, { key: pair.shared.limited })
  const refused = await revoke(foreign.body.allowance_id!)
  const absent = await revoke(unknown)
  expect([refused.status, refused.text.replaceAll(foreign.body.allowance_id!, unknown)]).toEqual([404, absent.text])
  expect((await revoke(body.allowances[0]!.id)).status).toBe(200)
})

// Just before the change is stored, an operator moves the agent to another team.
it.each(['decision', 'revocation'])('a %s is lost when the agent moves to another team', async (kind) => {
  const service = pair.shared
  const { body: question } = await askApproval(service, askingCall({ attempt: randomUUID(), tool: kind }), {
    id: 'a-1',
  })
  const key = service.limited
  const revoked = kind === 'revocation'
  const allowed = revoked ? await decide(service, question.id, { decision: 'approve', for_minutes: 5 }) : undefined
  const { database } = service.deps
  const { batch } = database
  database.batch = async (statements, options) => {
    database.batch = batch
    await service.setTags('a-1', ['team:b'])
    return batch(statements, options)
  }
  const answer = revoked
    ? await service.call('DELETE', `/api/allowances/${allowed!.body.allowance_id}`, { key })
    : await decide(service, question.id)
  database.batch = batch
  expect(answer.status).toBe(404)
  if (!revoked) {
    const { body } = await get<Approval>(service, `/api/approvals/${question.id}`, adminKey)
    expect(body.state).toBe('pending')
  } else {
    const listed = await get<{ allowances: Allowance[] }>(service, '/api/allowances', adminKey)
    expect(listed.body.allowances.find(({ id }) => id === allowed!.body.allowance_id)?.state).toBe('active')
  }
  await service.setTags('a-1', ['team:a'])
})
