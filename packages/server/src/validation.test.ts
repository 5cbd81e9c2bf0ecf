import { channelKinds, endpoints, NewChannel } from '@wardline/contract'
import { expect, it } from 'vitest'
import { faultFinder } from './validation.ts'

/** Collects text schemas with a pattern, at any depth. */
function patternsIn(schema: unknown): { pattern: string; 'x-rule'?: unknown }[] {
  if (typeof schema !== 'object' || schema === null) return []
  const own = 'pattern' in schema && typeof schema.pattern === 'string' ? [schema as { pattern: string }] : []
  return [...own, ...Object.values(schema).flatMap(patternsIn)]
}

it('has a sentence for every pattern of the contract', () => {
  const schemas = patternsIn([endpoints, channelKinds])
  expect(new Set(schemas.map(({ pattern }) => pattern)).size).toBeGreaterThan(15)
  const silent = schemas.filter((schema) => !/^(must|may) .*[^.]$/.test(String(schema['x-rule'])))
  expect(silent).toEqual([])
})

const channelFault = faultFinder(NewChannel)

it.each([
  ['no type', { name: 'a' }, /^type must be webhook, slack, .*, or splunk; it is missing\.$/],
  ['an unknown type', { name: 'a', type: 'pigeon' }, /^type must be webhook, slack, .*, or splunk\.$/],
  ['a type that is no text', { name: 'a', type: 5 }, /^type must be webhook, slack, .*, or splunk\.$/],
  ['no settings', { name: 'a', type: 'slack' }, /^settings is required\.$/],
  ['settings of another type', { name: 'a', type: 'slack', settings: { token: 'x' } }, /^settings\.url is required\.$/],
  ['no name', { type: 'slack', settings: { url: 'https://a.example' } }, /^name is required\.$/],
  ['no object', 'slack', /^The body must be a JSON object\.$/],
])('validates the settings of a channel by its type: %s', (_case, given, sentence) => {
  expect(channelFault(given)).toMatch(sentence)
})

it('accepts a channel with the settings of its type', () => {
  expect(channelFault({ name: 'a', type: 'slack', settings: { url: 'https://a.example' } })).toBeUndefined()
})
