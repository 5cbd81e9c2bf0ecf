import { coverageOf } from '@wardline/contract'
import { expect, it } from 'vitest'
import { starterDocuments } from './starter-rules.ts'

const starter = Object.entries(starterDocuments()).map(([name, { tags = [] }]) => ({ name, tags, firings_7d: 1 }))

it('knows each technique that a starter rule names', () => {
  const { covered, total, unknown } = coverageOf(starter)
  expect(unknown).toEqual([])
  expect(total).toBe(170)
  expect(covered).toBe(new Set(starter.flatMap(({ tags }) => tags.filter((tag) => tag.startsWith('atlas.')))).size)
})

it('lists a technique in each of its tactics, with the rules that have its tag, and techniques without a rule', () => {
  const rules = [
    { tags: ['atlas.aml.t0012', 'atlas.aml.t0012', 'pack.mine'], firings_7d: 2 },
    { tags: ['atlas.aml.t0012', 'atlas.aml.t9999'], firings_7d: 3 },
  ]
  const { tactics, covered, unknown } = coverageOf(rules)
  expect(covered).toBe(1)
  expect(unknown).toEqual(['atlas.aml.t9999'])
  const found = tactics.flatMap(({ name, techniques }) =>
    techniques.filter(({ id }) => id === 'AML.T0012').map((technique) => ({ tactic: name, ...technique })),
  )
  expect(found.map(({ tactic }) => tactic)).toContain('Initial Access')
  for (const technique of found) expect(technique).toMatchObject({ name: 'Valid Accounts', rules, firings_7d: 5 })
  const names = new Map(tactics.flatMap(({ techniques }) => techniques).map(({ id, name }) => [id, name]))
  expect(names.get('AML.T0051.001')).toBe('LLM Prompt Injection: Indirect')
  expect(tactics.flatMap(({ techniques }) => techniques).filter((one) => one.rules.length === 0)).not.toEqual([])
})
