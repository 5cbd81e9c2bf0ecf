import { expect, test } from 'vitest'
import { sampleEvents } from '../testing/events.ts'
import { passes } from './event-filter.ts'

const { plain, bare, blocked } = sampleEvents

test('lets everything pass by default', () => {
  for (const event of Object.values(sampleEvents)) expect(passes({}, event)).toBe(true)
})

test('takes alternatives of one kind, and all kinds together', () => {
  expect(passes({ severity: ['info', 'critical'] }, plain)).toBe(true)
  expect(passes({ severity: ['info', 'critical'] }, bare)).toBe(false)
  expect(passes({ severity: ['critical'], type: ['egress_blocked'] }, blocked)).toBe(true)
  expect(passes({ severity: ['critical'], type: ['tool_call'] }, blocked)).toBe(false)
})

test('leaves out the types that are named', () => {
  expect(passes({ excludeType: ['tool_call', 'session_metrics'] }, plain)).toBe(false)
  expect(passes({ excludeType: ['tool_call'] }, blocked)).toBe(true)
  expect(passes({ type: ['tool_call'], excludeType: ['tool_call'] }, plain)).toBe(false)
})

test('finds instances by id or by prefix, and none without one', () => {
  expect(passes({ instance: ['support-bot-1'] }, plain)).toBe(true)
  expect(passes({ instance: ['support'] }, plain)).toBe(false)
  expect(passes({ instance: ['billing_1', 'support-*'] }, plain)).toBe(true)
  expect(passes({ instance: ['*'] }, bare)).toBe(false)
})

test('finds text in any case, in source, type and description', () => {
  expect(passes({ grep: 'SEARCHED the' }, plain)).toBe(true)
  expect(passes({ grep: 'Egress_' }, blocked)).toBe(true)
  expect(passes({ grep: 'proxy' }, blocked)).toBe(true)
  expect(passes({ grep: 'web-search' }, plain)).toBe(false)
  // Not a pattern: what is typed is what is looked for.
  expect(passes({ grep: 's.arched' }, plain)).toBe(false)
})
