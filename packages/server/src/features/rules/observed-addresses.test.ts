import { afterEach, beforeEach, expect, it } from 'vitest'
import { isoTime, minuteMs } from '../../clock.ts'
import { openRuleService, type RuleService, shellRule, toolCall } from '../../testing/rule-service.ts'

// Attack: an agent names an address that a rule exempts, or that of another agent, in its reports.
let on: RuleService
beforeEach(async () => {
  on = await openRuleService()
  await on.runRules()
})
afterEach(() => on[Symbol.asyncDispose]())

const ruleOn = (field: string, address: string) =>
  shellRule({
    detection: { shell: { tool: 'shell-exec' }, office: { [field]: address }, condition: 'shell and office' },
    tests: {
      match: [[{ event_type: 'tool_call', metadata: { tool: 'shell-exec' }, [field]: address }]],
      no_match: [[{ event_type: 'tool_call', metadata: { tool: 'shell-exec' }, [field]: '198.51.100.1' }]],
    },
  })

const reported = '203.0.113.9'
it.each([
  ['ip_address', '127.0.0.1', ['claims', 'plain']],
  ['ip_address', reported, []],
  ['reported_ip_address', reported, ['claims']],
  ['reported_ip_address', '127.0.0.1', []],
])('%s %s is read by rules from events of %j, live and in a backtest', async (field, address, expected) => {
  const from = isoTime(on.clock.now() - minuteMs)
  const id = await on.create(ruleOn(field, address))
  await on.report(toolCall('shell-exec', 'plain'), toolCall('shell-exec', 'claims', { ip_address: reported }))
  await on.runRules()
  expect((await on.firings(id)).map(({ instance_id }) => instance_id).sort()).toEqual(expected)
  on.clock.advance(1)
  const body = { id, from, to: isoTime(on.clock.now()) }
  const { body: tried } = await on.call<{ firings: number }>('POST', '/api/rules/backtest', { body })
  expect(tried.firings).toBe(expected.length)
})

it('stores no second address where the report names that of the client, and reads earlier rows as observed', async () => {
  await on.report(toolCall('file-read', 'same', { ip_address: '127.0.0.1' }))
  expect(await on.rows('select ip_address, observed_ip_address from events order by seq desc limit 1')).toEqual([
    { ip_address: '127.0.0.1', observed_ip_address: null },
  ])
})
