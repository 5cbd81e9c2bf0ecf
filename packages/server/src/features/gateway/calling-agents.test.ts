import { afterEach, expect, it } from 'vitest'
import { DatabaseError } from '../../errors.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
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
