import { expect, test } from 'vitest'
import { crc32Base62 } from './checksum.ts'

// Published tokens of GitHub and npm, and the empty text.
test.each([
  ['zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ', '0mLq17'],
  ['qkJaB6MffYVzZXWqmcoF49yrUxP3wf', '0LsakP'],
  ['A'.repeat(30), '0uCPlr'],
  ['', '000000'],
])('the checksum of %j is %s', (text, checksum) => {
  expect(crc32Base62(text)).toBe(checksum)
})
