import { expect, test } from 'vitest'
import { traceLinkOf } from './telemetry.ts'

const template = 'https://traces.example.com/trace/{trace_id}?tab=spans'
const id = '5b8efff798038103d269b633813fc60c'

test('an event with the id of a trace has a link to it', () => {
  expect(traceLinkOf(template, { trace_id: id })).toBe(`https://traces.example.com/trace/${id}?tab=spans`)
  expect(traceLinkOf(undefined, { trace_id: id })).toBeNull()
})

// Metadata is text of the agent, which may send anything as an id.
test.each([
  ...[undefined, null, 5, '', [id], '0'.repeat(32), id.slice(1), `${id}0`, id.toUpperCase(), ` ${id}`, `${id}\n`],
  ...['../../admin', '$&', `javascript:${id}`, `${id.slice(6)}/../..`],
])('%j is not the id of a trace', (trace_id) => {
  expect(traceLinkOf(template, { trace_id })).toBeNull()
})
