import { describe, expect, it } from 'vitest'
import { unlinked } from './plain-text.ts'

describe('unlinked', () => {
  it.each([
    ['evil.com', 'evil[.]com'],
    ['www.evil.co.uk/x?y=1', 'www[.]evil[.]co[.]uk/x?y=1'],
    ['münchen.de', 'münchen[.]de'],
    ['xn--p1ai.xn--p1ai', 'xn--p1ai[.]xn--p1ai'],
    ['пример.рф', 'пример[.]рф'],
    ['evil。com evil．com evil｡com', 'evil[.]com evil[.]com evil[.]com'],
    ['a-.b_.com', 'a-.b_[.]com'],
    ['admin@evil.com @here', 'admin[@]evil[.]com [@]here'],
    ['203.0.113.7 and 203.0.113.7:8080/x', '203.0.113[.]7 and 203.0.113[.]7:8080/x'],
    ['/etc/app/config.json', '/etc/app/config[.]json'],
  ])('defangs %s', (text, expected) => {
    expect(unlinked(text)).toBe(expected)
  })

  it.each([
    'A decoy was used. Stop the agent.',
    '12:00:30',
    'z = 3.14, version 1.2.3',
    'wait...',
    '.env and ../x',
    'e.g. this',
    '5.5 s',
  ])('does not change %s', (text) => {
    expect(unlinked(text)).toBe(text)
  })
})
