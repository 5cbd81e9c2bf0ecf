import { PassThrough } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import { expect, test } from 'vitest'
import { askSettings, parseSettings } from './channel-settings.ts'

/** Answers the questions, each after it was asked; returns the settings and all that was shown. */
async function asked(type: Parameters<typeof askSettings>[0], answers: string[]) {
  const [input, output] = [new PassThrough(), new PassThrough()]
  let shown = ''
  const left = [...answers]
  let answered = 0
  output.setEncoding('utf8').on('data', (text: string) => {
    shown += stripVTControlCharacters(text)
    const questions = shown.match(/\): |^\w+: /gm)?.length ?? 0
    if (questions === answered) return
    answered = questions
    const answer = left.shift()
    // As a person would, who reads before typing.
    setImmediate(() => (answer === undefined ? input.end() : input.write(`${answer}\n`)))
  })
  const settings = await askSettings(type, { input, output })
  return { settings, shown }
}

test('asks for each field, and takes several values separated by commas', async () => {
  const { settings, shown } = await asked('email', [
    'smtp://u:p@mail.example:587',
    'w@a.example',
    'b@a.example, c@a.example',
  ])
  expect(settings).toEqual({
    url: 'smtp://u:p@mail.example:587',
    from: 'w@a.example',
    to: ['b@a.example', 'c@a.example'],
  })
  expect(shown).toContain('to (several values separated by commas): ')
})

test('leaves out what may be left out, and asks again for what may not', async () => {
  const { settings, shown } = await asked('pagerduty', ['', 'a'.repeat(32), ''])
  expect(settings).toEqual({ routing_key: 'a'.repeat(32) })
  expect(shown.match(/routing_key/g)).toHaveLength(2)
  expect(shown).toContain('one of us, eu')
})

test('takes yes or no, and leaves another answer to the service', async () => {
  const decides = async (answer: string) =>
    (await asked('ntfy', ['https://ntfy.example/t', '', answer])).settings as { decides?: unknown }
  expect((await decides('yes')).decides).toBe(true)
  expect((await decides('N')).decides).toBe(false)
  expect((await decides('maybe')).decides).toBe('maybe')
  expect(await decides('')).not.toHaveProperty('decides')
})

// A reader over the shoulder, or of a shared screen, could otherwise send in the name of the service.
test('shows no secret while it is typed', async () => {
  const { settings, shown } = await asked('telegram', ['123:abcdefghijkl', '@wardens', '', ''])
  expect(settings).toEqual({ token: '123:abcdefghijkl', chat_id: '@wardens' })
  expect(shown).not.toContain('abc')
  expect(shown).toContain('@wardens')
})

test('ends when the input does', async () => {
  await expect(asked('slack', [])).rejects.toThrow('Settings are missing.')
})

// The sentence ends up in logs of scripts, and the parser's own would quote the text.
test('refuses what is not a JSON object without repeating it', () => {
  for (const text of ['', '{"url":"https://hooks.example/SECRET"', '["SECRET"]', '"SECRET"', 'null']) {
    expect(() => parseSettings(text)).toThrow(/^The settings (are not valid JSON|must be one JSON object)(?!.*SECRET)/)
  }
  expect(parseSettings('{"url":"https://hooks.example"}')).toEqual({ url: 'https://hooks.example' })
})
