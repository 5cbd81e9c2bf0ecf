import { expect, test } from 'vitest'
import { SessionMemory } from './memory.ts'
import { PolicySet } from './policy-set.ts'

/** Rules enough that each comparison counts. */
const setOf = (key: string, wanted: readonly string[]) =>
  new PolicySet({
    agent: { id: 'bot-1', tags: [] },
    policies: [
      {
        id: 'p1',
        title: 'p1',
        version: 1,
        mode: 'enforce',
        document: {
          title: 'p1',
          rules: Array.from({ length: 50 }, (_, at) => ({
            title: `Rule ${at}`,
            decision: 'deny',
            when: { [key]: wanted },
          })),
        },
      },
    ],
  })

const ten = (text: string) => Array.from({ length: 10 }, (_, at) => `${text}${at}`)
const filled = Array.from({ length: 10_000 }, (_, at) => `user${at}@good.example`)

test.each([
  ['a|host', ten('*.b.example'), filled],
  ['a', ten('*b*c'), filled],
  ['a|path', ten('/a/**/b'), filled],
  ['a', ten('*b*c'), 'a'.repeat(1_048_576)],
  ['a|path', ten('/a/**/b'), 'a/'.repeat(500_000)],
  ['a|command', ten('rm * '), 'a;'.repeat(32_000)],
  ['a|command', ten('rm * '), 'sudo -a sudo -a sudo -a sudo -a sudo -a sudo -a rm;'.repeat(1_200)],
] as const)('50 rules on %s decide in time on arguments that are filled with values', (key, wanted, value) => {
  const set = setOf(key, wanted)
  const decide = () => set.decide(new SessionMemory(), { tool: 't', args: { a: value }, at: 0 })
  // Of several, because the machine may be busy.
  const times = [1, 2, 3, 4].map(() => {
    const startedAt = performance.now()
    decide()
    return performance.now() - startedAt
  })
  // Some 50 ms; without a bound it is seconds, in which a coding agent stops waiting for its hook and runs the call.
  expect(Math.min(...times)).toBeLessThan(700)
  const { decision, why } = decide()
  expect(decision).toBe('deny')
  expect(why).toContain('cannot be evaluated')
})
