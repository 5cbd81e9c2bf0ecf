import { expect, test } from 'vitest'
import { modeOfText, responseSentences } from './rule-texts.ts'

test('finds the mode in the text of a rule, in YAML and in JSON', () => {
  expect(modeOfText('title: A\nmode: enforce\nseverity: info\n')).toBe('enforce')
  expect(modeOfText('mode :  "alert" # for now')).toBe('alert')
  expect(modeOfText(JSON.stringify({ title: 'A', mode: 'enforce' }, null, 2))).toBe('enforce')
  expect(modeOfText(JSON.stringify({ title: 'A', mode: 'enforce' }))).toBe('enforce')
  expect(modeOfText('{ title: A, mode: enforce }')).toBe('enforce')
  expect(modeOfText('mode:\n  enforce\n')).toBe('enforce')
  expect(modeOfText('title: the mode: of a rule\n')).toBeUndefined()
  expect(modeOfText('title: A\n# mode: enforce\n')).toBeUndefined()
})

test('describes what each firing does, including the default alert and the steps of suspensions', () => {
  expect(responseSentences({})).toEqual(['sends an alert to all channels'])
  expect(
    responseSentences({
      response: [
        { action: 'alert', channel: 'On call' },
        { action: 'suspend', for: '15m' },
        { action: 'suspend' },
        { action: 'call', point: 'stop-pod' },
      ],
    }),
  ).toEqual([
    'sends an alert to the channel On call',
    'suspends the agent for 15m (step 1 of 2 within a day)',
    'suspends the agent until resumed by a person (step 2 of 2 within a day)',
    'calls the enforcement point stop-pod',
  ])
})
