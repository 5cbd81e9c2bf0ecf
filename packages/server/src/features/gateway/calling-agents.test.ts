import { afterEach, expect, it } from 'vitest'
import { DatabaseError } from '../../errors.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { noteModelCut } from '../suspensions/suspension-statements.ts'
import { CallingAgents } from './calling-agents.ts'

let service: TestService
afterEach(() => service[Symbol.asyncDispose]())

// Attack: so many calls at once that some wait for a connection longer than they may.
it('takes a fault for no outage while other calls are answered', async () => {
  service = await openTestService({ env: { WARDLINE_GATEWAY_FAIL: 'open' } })
  const { key } = await service.createKey('agent', ['bot'])
  await service.call('POST', '/api/heartbeat', { key, body: { instance_id: 'bot', name: 'Bot' } })
  const principal = service.services.keyring.find(key)!
  const agents = new CallingAgents(service.deps, {
    ...service.services,
    controlStates: { peek: () => undefined, readStored: (id) => service.services.controlStates.readStored(id) },
  })
  const timedOut = new DatabaseError('timeout exceeded when trying to connect')
  await agents.assertActive('bot', principal, null)
  const outage = () => agents.check('bot', () => Promise.reject(timedOut))
  expect(await outage()).toBeUndefined()
  await expect(
    agents.check('bot', async () => {
      await agents.assertActive('bot', principal, null)
      throw timedOut
    }),
  ).rejects.toBe(timedOut)
  // The answer arrived, and is handled after the fault.
  const [faulty] = await Promise.allSettled([outage(), agents.check('bot', async () => 'answered')])
  expect(faulty).toMatchObject({ status: 'rejected', reason: timedOut })
})

// What is refused late, such as by a process that stood still, must not look as if it had held the agent.
it('refusals after the resume are no evidence of the suspension', async () => {
  service = await openTestService()
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'bot', name: 'Bot' } })
  await service.call('POST', '/api/kill/bot', { body: { reason: 'test' } })
  await service.call('POST', '/api/resume/bot', { body: {} })
  await noteModelCut(service.deps.database.db, 'bot', 1, service.clock.now())
  const list = await service.call<{ suspensions: object[] }>('GET', '/api/instances/bot/suspensions')
  expect(list.body.suspensions).toMatchObject([{ version: 1, enforced_by: null }])
})
