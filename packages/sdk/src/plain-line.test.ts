import { sanitize } from '@wardline/text'
import { expect, test } from 'vitest'
import { plainLine } from './plain-line.ts'

// The reason of a kill must look the same on the terminals of the agent and the operator, or a manipulation goes
// unnoticed.
test('plainLine equals sanitize of the service and the command line for every character', () => {
  for (let plane = 0; plane <= 0x10; plane++) {
    for (let block = 0; block < 0x10000; block += 0x400) {
      const points = Array.from({ length: 0x400 }, (_, index) => plane * 0x10000 + block + index)
      const text = points.map((point) => `${String.fromCodePoint(point)}a`).join('')
      expect(plainLine(text), `U+${points[0]!.toString(16)}`).toBe(sanitize(text))
    }
  }
})
