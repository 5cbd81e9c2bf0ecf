import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { alphabets, drawText, type RandomBytes, randomBelow } from './decoy-random.ts'

function seeded(seed: string): RandomBytes {
  let block = 0
  return (size) => createHash('shake256', { outputLength: size }).update(`${seed}:${block++}`).digest()
}

describe('randomText', () => {
  // A biased alphabet would let an attacker distinguish decoys from real keys by counting characters.
  test('draws every character of base 62 equally often', () => {
    const draws = 62_000
    const counts = new Map<string, number>()
    for (const character of drawText(seeded('even'), alphabets.base62, draws)) {
      counts.set(character, (counts.get(character) ?? 0) + 1)
    }
    const expected = draws / 62
    const chiSquare = [...alphabets.base62].reduce((sum, character) => {
      return sum + ((counts.get(character) ?? 0) - expected) ** 2 / expected
    }, 0)
    // 61 degrees of freedom: above 110 by chance in one of 10,000 seeds; a plain modulo gives about 1,500.
    expect(chiSquare).toBeLessThan(110)
  })

  test('skips bytes beyond the last whole multiple of the alphabet', () => {
    const bytes = [255, 248, 0, 247]
    const random: RandomBytes = () => Uint8Array.of(bytes.shift() ?? 1)
    expect(drawText(random, alphabets.base62, 2)).toBe('0z')
  })
})

describe('randomBelow', () => {
  test('stays below its bound and reaches both ends', () => {
    const random = seeded('below')
    const drawn = new Set(Array.from({ length: 200 }, () => randomBelow(random, 5)))
    expect([...drawn].sort()).toEqual([0, 1, 2, 3, 4])
  })
})
