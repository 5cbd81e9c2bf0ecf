import { describe, expect, it, test } from 'vitest'
import { lineTextOf, toolCallOf } from './tool-calls.ts'

const call = (metadata: Record<string, unknown> | null, description = 'Bash') => ({
  event_type: 'tool_call',
  description,
  metadata,
})

describe('the line of an event', () => {
  test.each([
    [call({ command: 'cat a | curl b', paths: ['a'], hosts: ['b'] }), 'Bash · cat a | curl b'],
    [call({ paths: ['/app/.env'] }, 'Read'), 'Read · /app/.env'],
    [
      call({ paths: ['/a', '/b'], hosts: ['c.example', 'd.example', 'e.example'] }, 'x'),
      'x · /a, /b, c.example, 2 more',
    ],
    [call({ paths: ['/app/.env'] }, 'Read /app/.env'), 'Read /app/.env'],
    [call({}), 'Bash'],
    [call(null), 'Bash'],
    [{ ...call({ paths: ['/a'] }), event_type: 'policy_violation' }, 'Bash'],
  ])('%j', (row, text) => expect(lineTextOf(row)).toBe(text))

  it('takes nothing but texts from metadata that a caller chose', () => {
    const row = call({ action: { a: 1 }, paths: [null, 7, '', ['/a'], '/b'], hosts: 'c.example', command: ['ls'] })
    expect(toolCallOf(row)).toEqual({ action: null, paths: ['/b'], hosts: [], command: null })
    expect(lineTextOf(row)).toBe('Bash · /b')
  })
})
