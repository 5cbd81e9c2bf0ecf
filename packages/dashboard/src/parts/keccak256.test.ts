import { keccak256 as reference, stringToHex } from 'viem/utils'
import { expect, it } from 'vitest'
import { keccak256 } from './keccak256.ts'

it('keccak256 matches the reference implementation at every length around block boundaries', () => {
  expect(keccak256('')).toBe('0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470')
  for (const size of [1, 2, 7, 8, 134, 135, 136, 137, 271, 272, 273, 1_000]) {
    const text = 'é'.repeat(size) + 'a'.repeat(size % 7)
    expect(keccak256(text), `size ${size}`).toBe(reference(stringToHex(text)))
  }
})
