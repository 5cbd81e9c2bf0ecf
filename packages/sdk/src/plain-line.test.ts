import { sanitize } from '@wardline/text'
import { expect, test } from 'vitest'
import { plainLine } from './plain-line.ts'

// A kill's reason must read the same on the agent's terminal and the operator's, or a change goes unnoticed.
test('is the same as the service and the command line do, for every character', () => {
  for (let plane = 0; plane <= 0x10; plane++) {
    for (let block = 0; block < 0x10000; block += 0x400) {
      const points = Array.from({ length: 0x400 }, (_, index) => plane * 0x10000 + block + index)
      const text = points.map((point) => `${String.fromCodePoint(point)}a`).join('')
      expect(plainLine(text), `U+${points[0]!.toString(16)}`).toBe(sanitize(text))
    }
  }
})
