import { channelTypes } from '@wardline/contract'
import { describe, expect, test } from 'vitest'
import { readableBody } from './alert-texts.ts'
import { changeAll } from './change-alerts.ts'
import { settingFields, settingsOf } from './setting-fields.ts'

const formOf = (values: Record<string, string>) => ({ get: (name: string) => values[name] ?? null })

describe('the form of a channel', () => {
  test('has a field with label and hint for each setting of each channel type', () => {
    for (const type of channelTypes) {
      const fields = settingFields(type)
      expect(fields.length, type).toBeGreaterThan(0)
      expect(
        fields.some(({ isRequired }) => isRequired),
        type,
      ).toBe(true)
      for (const { label, hint } of fields) expect([label, hint], type).not.toContain('')
    }
  })

  test('masks secret fields', () => {
    const secret = channelTypes.flatMap((type) =>
      settingFields(type).flatMap(({ isSecret, name }) => (isSecret ? name : [])),
    )
    expect(new Set(secret)).toEqual(new Set(['secret', 'token', 'routing_key']))
  })

  test('returns the filled-in settings, with lists as arrays', () => {
    const fields = settingFields('email')
    const form = formOf({ 'setting url': ' smtp://h ', 'setting from': 'a@h', 'setting to': 'b@h, c@h,' })
    expect(settingsOf(fields, form)).toEqual({ url: 'smtp://h', from: 'a@h', to: ['b@h', 'c@h'] })
    expect(settingsOf(fields, formOf({ 'setting url': '  ' }))).toEqual({})
    const decides = (value: string) => settingsOf(settingFields('ntfy'), formOf({ 'setting decides': value }))
    expect([decides('yes'), decides('no'), decides('')]).toEqual([{ decides: true }, { decides: false }, {}])
  })
})

describe('changing several alerts', () => {
  test('attempts each, and reports how many succeeded and the first error', async () => {
    const tried: number[] = []
    const change = async (item: number) => {
      tried.push(item)
      if (item === 2) throw new Error('No alert with id 2.')
    }
    await expect(changeAll([1, 3], 'resolved', change)).resolves.toBe('2 alerts resolved.')
    await expect(changeAll([1, 2, 3, 4, 5, 6], 'resolved', change)).rejects.toThrow(
      '5 of 6 alerts resolved; the others failed: No alert with id 2.',
    )
    await expect(changeAll([2], 'resolved', change)).rejects.toThrow(/^No alert with id 2\.$/)
    expect(tried).toHaveLength(9)
  })
})

describe('the body of a message', () => {
  const json = { content_type: 'application/json', cut: false }

  // Otherwise a line break within a text would look like another field.
  test('shows JSON with one field per line, and keeps line breaks within texts escaped', () => {
    expect(readableBody({ ...json, body: '{"a":"x\\n\\"severity\\": \\"info\\""}' })).toEqual([
      '{',
      String.raw`  "a": "x\n\"severity\": \"info\""`,
      '}',
    ])
  })

  test('shows other text unchanged', () => {
    expect(readableBody({ ...json, body: '{"a":', cut: true })).toEqual(['{"a":'])
    expect(readableBody({ ...json, body: 'oops' })).toEqual(['oops'])
    expect(readableBody({ content_type: 'text/plain', cut: false, body: 'Subject: x\n\ny' })).toEqual([
      'Subject: x',
      '',
      'y',
    ])
  })
})
