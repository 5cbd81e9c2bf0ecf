import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { policyVectors } from './testing/policy-vectors.ts'
import { type CheckedVector, runVector, type VectorResult } from './testing/vector.ts'
import { writtenVectors } from './testing/written-vectors.ts'

const inShort = (result: VectorResult): string | undefined => {
  if (result === null || typeof result === 'string') return undefined
  const { decision, rule, why } = result
  return `${decision} ${rule ?? '-'}${typeof why === 'string' && why.includes('cannot be evaluated') ? '?' : ''}`
}

test.each(writtenVectors.map((vector) => [vector.name, vector] as const))('%s', (_name, { expected, ...vector }) => {
  const outcome = runVector(JSON.parse(JSON.stringify(vector)))
  if (!Array.isArray(expected)) return expect(outcome).toEqual(expected)
  if ('fault' in outcome) throw new Error(outcome.fault)
  expect(outcome.results.map(inShort).filter((one) => one !== undefined)).toEqual(expected)
})

const stored = readFileSync(new URL('../../contract/vectors/policies.ndjson', import.meta.url), 'utf8')

test('the stored vectors are current: run "npm run docs" and commit the result', () => {
  expect(stored === policyVectors()).toBe(true)
})

test('there are 500 vectors, and each comes to what is stored', () => {
  const vectors = stored
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as CheckedVector)
  expect(vectors.length).toBeGreaterThanOrEqual(500)
  for (const { name, set, tools, steps, ...outcome } of vectors) {
    expect(runVector({ name, set, steps, ...(tools ? { tools } : {}) }), name).toEqual(outcome)
  }
})
