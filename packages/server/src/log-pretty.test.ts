import { expect, it } from 'vitest'
import { createLog } from './log.ts'
import { prettyLine } from './log-pretty.ts'

/** Formats a record for a terminal without colours. */
function shown(write: (log: ReturnType<typeof createLog>) => void): string {
  const lines: string[] = []
  write(createLog('debug', { write: (line) => void lines.push(prettyLine(line)) }))
  return lines.join('').replaceAll(/\u001b\[\d+m/g, '')
}

it('shows time, level, message and fields on one line', () => {
  const line = shown((log) => log.warn({ instanceId: 'bot', count: 2, list: ['a'] }, 'something happened'))
  expect(line).toMatch(/^\d\d:\d\d:\d\d {2}warn {3}something happened {2}instanceId=bot {2}count=2 {2}list=\["a"\]\n$/)
})

it('shows the message and the stack of an error', () => {
  const line = shown((log) => log.error({ err: new Error('no disk') }, 'the database failed'))
  expect(line).toMatch(/ {2}error {2}the database failed {2}no disk\n {10}at .+\n/)
})

// Text from agents reaches the log. It must not control the terminal or forge a line.
it('escapes control sequences', () => {
  const hostile = 'a\u001b[2Jb\nc\u202ed\u009be\u2028f\u{e0041}'
  const line = shown((log) => {
    log.info({ url: hostile, err: { message: hostile, stack: hostile } }, hostile)
    log.error({ err: Object.assign(new Error('x'), { stack: `x\n${hostile}` }) }, 'y')
  })
  expect(line.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\u202e\u2028\u{e0041}]/u)
  expect(line.split('\n').filter((part) => part.startsWith('c'))).toEqual([])
})

it('hides secrets like the JSON log', () => {
  expect(shown((log) => log.info({ key: 'hunter2', nested: { token: 'hunter2' } }, 'x'))).not.toContain('hunter2')
})
