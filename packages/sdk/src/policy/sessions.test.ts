import { expect, test } from 'vitest'
import { Sessions } from './sessions.ts'

const tool = { args: {}, conditional: [], isDirectory: false }
const none = () => false

test('a session that was pushed out by 200 others counts as one that read, if a tool answered in it', () => {
  const sessions = new Sessions()
  sessions.memoryOf('read').learn('read_inbox', tool, 'text')
  sessions.prompt('Hello', 'quiet')
  for (let at = 0; at < 200; at++) sessions.memoryOf(`other ${at}`)
  expect(sessions.memoryOf('read').hasMoreTools).toBe(true)
  expect(sessions.memoryOf('quiet').hasMoreTools).toBe(false)
})

test('the sessions used last are remembered as a whole', () => {
  const sessions = new Sessions()
  sessions.prompt('Write to anna@example.com', 'used')
  for (let at = 0; at < 400; at++) {
    sessions.memoryOf(`other ${at}`)
    sessions.memoryOf('used')
  }
  expect(sessions.memoryOf('used').proves('anna@example.com', none)).toBe(true)
})

// Frameworks pass the whole conversation with every step.
test('a prompt is remembered once, and calls without a session share one', () => {
  const sessions = new Sessions()
  for (let at = 0; at < 3; at++) sessions.prompt('Write to anna@example.com', undefined)
  expect(sessions.memoryOf(undefined).stored().words).toHaveLength(8 * 4)
})
