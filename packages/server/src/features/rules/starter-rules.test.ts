import { readFileSync } from 'node:fs'
import type { RuleList } from '@wardline/contract'
import { describe, expect, it, test } from 'vitest'
import { openTestService } from '../../test-service.ts'
import { lintRules, testRules } from './language/offline.ts'
import { parseRules } from './language/rule.ts'
import { starterRules } from './starter-rules.ts'

const rules = starterRules()
const guide = readFileSync(new URL('../../../../../docs/guide/rules.md', import.meta.url), 'utf8')

describe('starter rules', () => {
  it('are ten in number', () => expect(rules).toHaveLength(10))

  test.each(rules)('$name has mode observe, passes its tests and is documented', ({ name, text }) => {
    expect(lintRules(text).faults).toEqual([])
    const { mode, description } = parseRules(text).rules[0]!.rule.document
    expect(mode).toBe('observe')
    const [tested] = testRules(text).rules
    expect(tested?.failed).toEqual([])
    expect(tested?.passed).toBeGreaterThanOrEqual(2)
    expect(guide).toContain(`| \`${name}\` |`)
    expect(guide).toContain(description)
  })

  it('are accepted by the service, and the rule for runaway loops fires', async () => {
    await using service = await openTestService()
    for (const { text } of rules) {
      const headers = { 'content-type': 'application/yaml' }
      const { status, text: answer } = await service.call('POST', '/api/rules', { body: text, headers })
      expect(status, answer).toBe(201)
    }
    await service.services.ruleRunner.run()
    for (let call = 0; call < 61; call++) {
      const metadata = { toolName: 'file-read' }
      const body = {
        severity: 'info',
        source: 'a',
        event_type: 'tool_call',
        description: 'x',
        instance_id: 'a',
        metadata,
      }
      await service.call('POST', '/api/events', { body })
    }
    await service.services.ruleRunner.run()
    const { body } = await service.call<RuleList>('GET', '/api/rules')
    const fired = body.rules.filter(({ firings_24h }) => firings_24h > 0).map(({ title }) => title)
    expect(fired).toEqual(['Runaway loop'])
  })
})
