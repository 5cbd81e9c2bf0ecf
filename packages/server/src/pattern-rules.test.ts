import { channelSettings, endpoints } from '@wardline/contract'
import { expect, it } from 'vitest'
import { patternRule } from './pattern-rules.ts'

function patternsIn(schema: unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return []
  const own = 'pattern' in schema && typeof schema.pattern === 'string' ? [schema.pattern] : []
  return [...own, ...Object.values(schema).flatMap(patternsIn)]
}

it('has words for every pattern that a caller can break', () => {
  const asked = Object.values(endpoints).map((endpoint) => {
    const { params, query, body } = endpoint as { params?: unknown; query?: unknown; body?: unknown }
    return [params, query, body]
  })
  const patterns = new Set([...patternsIn(asked), ...patternsIn(channelSettings)])
  expect(patterns.size).toBeGreaterThan(15)
  expect([...patterns].filter((pattern) => patternRule(pattern) === 'does not have the expected format')).toEqual([])
})
