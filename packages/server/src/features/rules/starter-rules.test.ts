import { readFileSync } from 'node:fs'
import { type RuleList, ruleLimits } from '@wardline/contract'
import { describe, expect, it, test } from 'vitest'
import { dayMs, hourMs } from '../../clock.ts'
import { logged } from '../../testing/rules.ts'
import { openTestService } from '../../testing/service.ts'
import { sliceUnits } from '../../work-turns.ts'
import { lintRules, testRules } from './language/offline.ts'
import { compileStored, parseRules } from './language/rule.ts'
import { RuleSet } from './language/rule-set.ts'
import { ruleStates } from './language/rule-state.ts'
import { ValueMemory } from './language/value-memory.ts'
import { starterDocuments, starterRules } from './starter-rules.ts'

const rules = starterRules()
const packs = ['all-agents', 'coding-agents', 'assistants', 'data-agents', 'tool-servers', 'hunting'].map(
  (name) => `pack.${name}`,
)
const guide = readFileSync(new URL('../../../../../docs/guide/rules.md', import.meta.url), 'utf8')

describe('starter rules', () => {
  it('are forty-six in number', () => expect(rules).toHaveLength(46))

  it('cost little enough to leave room for others', () => {
    const cost = rules.reduce((sum, { text }) => sum + parseRules(text).rules[0]!.rule.cost, 0)
    expect(cost / sliceUnits).toBeLessThan(0.8 * ruleLimits.eventMs)
  })

  it('are shipped as documents that run like their texts', () => {
    const documents = starterDocuments()
    for (const { name, text } of rules) {
      const { document, ...compiled } = parseRules(text).rules[0]!.rule
      const { tests: _, ...running } = document
      expect(documents[name]).toEqual(running)
      expect(compileStored(documents[name]!).cost).toBe(compiled.cost)
    }
  })

  test.each(rules)('$name has mode observe, passes its tests and is documented', ({ name, text }) => {
    expect(lintRules(text).faults).toEqual([])
    const { mode, description, tags = [], falsepositives = [] } = parseRules(text).rules[0]!.rule.document
    expect(mode).toBe('observe')
    expect(tags.filter((tag) => packs.includes(tag))).toHaveLength(1)
    expect(tags.some((tag) => /^atlas\.aml\.t\d{4}(\.\d{3})?$/.test(tag))).toBe(true)
    expect(tags.some((tag) => /^owasp\.(asi|llm)(0[1-9]|10)$/.test(tag))).toBe(true)
    expect(falsepositives.length).toBeGreaterThan(0)
    const [tested] = testRules(text).rules
    expect(tested?.failed).toEqual([])
    expect(tested?.passed).toBeGreaterThanOrEqual(2)
    expect(guide).toContain(`| \`${name}\` |`)
    expect(guide).toContain(description!.trim())
  })

  // Attack: an agent shows a value that harms nobody, and does what it is after while the rule is silent.
  test.each([
    ['first-use-of-a-host', 'host', ['a.example', 'b.example', 'c.example', '10.0.0.1', 'd.example']],
    ['first-use-of-a-tool', 'tool', ['read-notes', 'shell-exec', 'email-send', 'http-request', 'code-exec']],
    ['unusual-hour', 'hour', [3, 4, 15, 20, 23]],
  ] as const)('%s fires for each new value, also right after another one', (name, kind, values) => {
    const { text } = rules.find((each) => each.name === name)!
    const [explicit, byDefault] = [text, text.replace(/^cooldown: .*\n/m, '')].map(
      (each) => parseRules(each).rules[0]!.rule,
    )
    expect(explicit!.document.cooldown).toBe('0s')
    expect(byDefault!.document.cooldown).toBeUndefined()
    for (const rule of [explicit!, byDefault!]) {
      const set = new RuleSet([{ compiled: rule, state: ruleStates.start(rule), history: new ValueMemory() }])
      let seq = 0
      const isFiredAt = (day: number, value?: string | number) => {
        seq += 1
        const hour = kind === 'hour' ? Number(value ?? 12) : 12
        const metadata = {
          toolName: kind === 'tool' ? (value ?? 'file-read') : 'file-read',
          hosts: [kind === 'host' ? (value ?? 'usual.example') : 'usual.example'],
        }
        const at = Math.floor(day) * dayMs + hour * hourMs
        return set.take(logged({ seq, at, event_type: 'tool_call', metadata })).length === 1
      }
      for (let day = 0; day < 15; day += 1) expect(isFiredAt(day), `day ${day}`).toBe(false)
      const days = [15, 15, 16, 27, 44]
      expect(values.map((value, index) => isFiredAt(days[index]!, value))).toEqual([true, true, true, true, true])
      expect(values.map((value) => isFiredAt(44, value)).slice(1)).toEqual([false, false, false, false])
    }
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
