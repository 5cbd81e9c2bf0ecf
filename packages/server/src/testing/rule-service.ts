import type { RuleFirings, RuleStored } from '@wardline/contract'
import { expect } from 'vitest'
import { openTestService, type TestService } from './service.ts'

/** A service whose rules run only on demand. */
export interface RuleService extends TestService {
  create(document: object): Promise<string>
  report(...events: object[]): Promise<void>
  /** Runs the rules on stored events and waits for the responses. */
  runRules(): Promise<void>
  firings(id: string): Promise<RuleFirings['firings']>
  eventsOf(type: string): Promise<{ id: string; severity: string; metadata: Record<string, unknown> }[]>
}

export async function openRuleService(options: Parameters<typeof openTestService>[0] = {}): Promise<RuleService> {
  const service = await openTestService(options)
  const { ruleRunner } = service.services
  const runRules = async () => {
    await ruleRunner.run()
    await ruleRunner.whenIdle()
  }
  return Object.assign(service, {
    runRules,
    async create(body: object) {
      const answer = await service.call<RuleStored & { error: string }>('POST', '/api/rules', { body })
      expect(answer.body.error).toBeUndefined()
      await runRules()
      return answer.body.id
    },
    async report(...events: object[]) {
      expect((await service.call('POST', '/api/events/batch', { body: events })).status).toBe(200)
    },
    firings: async (id: string) =>
      (await service.call<RuleFirings>('GET', `/api/rules/${id}/firings?limit=200`)).body.firings,
    eventsOf: async (type: string) =>
      (await service.call<{ events: never[] }>('GET', `/api/events?event_type=${type}`)).body.events,
  })
}

/** Returns a rule that fires on each shell call. */
export const shellRule = (more: object = {}) => ({
  title: 'Shell',
  severity: 'warning',
  detection: { shell: { event_type: 'tool_call', tool: 'shell-exec' }, condition: 'shell' },
  tests: {
    match: [[{ event_type: 'tool_call', metadata: { tool: 'shell-exec' } }]],
    no_match: [[{ event_type: 'tool_call', metadata: { tool: 'file-read' } }]],
  },
  ...more,
})

export const toolCall = (tool: string, instance_id = 'agent-a', more: object = {}) => ({
  severity: 'info',
  source: 'test',
  event_type: 'tool_call',
  description: `calls ${tool}`,
  instance_id,
  metadata: { tool },
  ...more,
})
