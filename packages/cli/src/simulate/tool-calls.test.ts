import { knownTools } from '@wardline/contract'
import { expect, test } from 'vitest'
import { seededRandom } from './random.ts'
import { castOf, roles } from './story.ts'
import { callReport, callsOf, pickCall } from './tool-calls.ts'

test('an agent calls each of the known tools eventually', () => {
  const random = seededRandom(3)
  for (const role of roles) {
    const called = new Set(Array.from({ length: 400 }, () => pickCall(random, role).toolName))
    expect([...called].sort(), role.name).toEqual([...knownTools].sort())
  }
})

test('a call is reported with what it does: its action, and its paths, hosts or command', () => {
  const actions: Record<string, string> = {
    'web-search': 'request',
    'file-read': 'read',
    'http-request': 'request',
    'shell-exec': 'execute',
    'email-send': 'send',
    'code-exec': 'execute',
  }
  for (const member of castOf(roles.length)) {
    for (const call of callsOf(member.role)) {
      const { metadata, description, sessionId } = callReport(seededRandom(1), member, 'session-1', call)
      expect({ description, sessionId }).toEqual({ description: call.doing, sessionId: 'session-1' })
      expect(metadata).toMatchObject({ toolName: call.toolName, action: actions[call.toolName], params: call.params })
      const { paths, hosts, command } = metadata as Record<string, unknown>
      if (call.toolName === 'file-read') expect(paths).toEqual([call.params.path])
      if (['http-request', 'email-send'].includes(call.toolName)) expect(hosts).toHaveLength(1)
      if (call.toolName.endsWith('-exec')) expect(command).toBe(call.params.command ?? call.params.code)
    }
  }
})
