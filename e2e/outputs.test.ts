import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  byProxyReturning,
  type Outputs,
  outputsByHook,
  outputsByPython,
  outputsBySdk,
  secret,
} from './calling-clients.ts'
import { createKeyDecoy } from './fleet.ts'
import { caseEvent, fires, key, newInstance, service, starters, startRuleService, stored } from './rule-clients.ts'

// What tools return and models answer, as the real clients report it.

beforeAll(startRuleService, 60_000)
afterAll(() => service?.stop())

const plant = (instanceId: string) => createKeyDecoy(service, instanceId, 'generic')
const env = (value: string) => `HOME=/home/bot\nBACKUP=${value}\nLANG=C.UTF-8\n`

describe.each<[string, Outputs]>([
  ['the SDK', outputsBySdk],
  ['the hooks of Claude Code', outputsByHook],
  ['the Python client', outputsByPython],
])('of %s', (_, client) => {
  it('an answer with a secret fires the starter rule, and is not in the event', async () => {
    const instanceId = newInstance()
    await client({ service, key, instanceId }, [
      ['answer', `Here it is:\n${secret}`],
      ['answer', 'Done.'],
    ])
    const [leaking, usual] = await stored(instanceId, 'model_answer', 2)
    expect(leaking).toMatchObject({ severity: 'info', description: 'Answer', source: instanceId })
    expect(leaking!.metadata).toEqual({
      result: { length: 52, hash: expect.stringMatching(/^[0-9a-f]{32}$/), secrets: ['aws_key', 'named_secret'] },
    })
    expect(JSON.stringify([leaking, usual])).not.toContain('AKIA')
    expect(await fires(starters['secret-in-answer']!, [caseEvent(leaking!)])).toBe(true)
    expect(await fires(starters['secret-in-answer']!, [caseEvent(usual!)])).toBe(false)
  })

  it('a decoy key is a warning in a result, and a breach in an answer', async () => {
    const instanceId = newInstance()
    const decoy = await plant(instanceId)
    await client({ service, key, instanceId }, [['result', env(decoy.key)]])
    const [read] = await stored(instanceId, 'decoy_read', 1)
    const fields = { honeypot_id: decoy.id, planted_at: instanceId, found_in: 'result', tool: 'Grep' }
    expect(read).toMatchObject({ severity: 'warning', by_service: true, metadata: fields })
    await client({ service, key, instanceId }, [['answer', `The backup key is ${decoy.key}.`]])
    const breaches = await stored(instanceId, 'honeypot_triggered', 1)
    const given = { honeypot_id: decoy.id, found_in: 'answer' }
    expect(breaches).toMatchObject([{ severity: 'breach', by_service: true, metadata: given }])
  })
})

it('a decoy key that an MCP server returns is a warning', async () => {
  const instanceId = newInstance()
  const decoy = await plant(instanceId)
  await byProxyReturning(env(decoy.key))({ service, key, instanceId }, [['read_text_file', { path: '/srv/backup' }]])
  const [read] = await stored(instanceId, 'decoy_read', 1)
  expect(read).toMatchObject({ metadata: { honeypot_id: decoy.id, tool: 'read_text_file', found_in: 'result' } })
})
