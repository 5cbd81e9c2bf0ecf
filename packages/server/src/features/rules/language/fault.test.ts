import { expect, test } from 'vitest'
import { shown } from './fault.ts'

test('a text is not cut within a character', () => {
  for (let before = 50; before < 60; before++) {
    const text = shown(`${'x'.repeat(before)}${'🦊'.repeat(10)}`)
    expect(text.isWellFormed(), text).toBe(true)
    expect(text.endsWith('…')).toBe(true)
  }
})
