import { describe, expect, it } from 'vitest'
import { countedCost, feesFor, minGas } from './fees.ts'

const gwei = 1_000_000_000n

describe('the tip', () => {
  // A node that gets a part of the tips could otherwise ask for everything between the base fee and the limit.
  it('is at signedMaximum half of the base fee, whatever the node suggests', () => {
    expect(feesFor({ base: gwei, tip: 4n * gwei }, 5n * gwei)).toEqual({ max: (5n * gwei) / 2n, tip: gwei / 2n })
    expect(feesFor({ base: gwei, tip: gwei / 4n }, 5n * gwei)?.tip).toBe(gwei / 4n)
  })

  it('is a thousandth of a gwei where the base fee is lower or nobody pays one', () => {
    expect(feesFor({ base: 0n, tip: 4n * gwei }, 5n * gwei)?.tip).toBe(1_000_000n)
    expect(feesFor({ base: gwei, tip: 0n }, 5n * gwei)?.tip).toBe(1_000_000n)
  })
})

describe('the minimum gas', () => {
  it('is that of a transaction, of its zero bytes and of its others', () => {
    expect(minGas('0x')).toBe(21_000)
    expect(minGas('0x00ff0001')).toBe(21_000 + 2 * 4 + 2 * 16)
  })
})

describe('the counted cost', () => {
  const signed = { gas: 100_000n, max: 3n * gwei, lowest: 2n * gwei }
  const signedMaximum = 300_000n * gwei

  it('is what the receipt says where that can be right', () => {
    expect(countedCost({ gas: 21_000n, price: gwei / 2n }, signed)).toBe(10_500n * gwei)
    expect(countedCost({ gas: 100_000n, price: 3n * gwei }, signed)).toBe(signedMaximum)
  })

  // Receipts of no cost would free the weekly budget, and the wallet could be emptied within it.
  it.each([
    ['no gas', 0n, gwei],
    ['less gas than any transaction needs', 20_999n, gwei],
    ['more gas than was signed', 100_001n, gwei],
    ['no price', 50_000n, 0n],
    ['a price far below the base fee', 50_000n, gwei / 2n - 1n],
    ['a higher price than was signed', 50_000n, 3n * gwei + 1n],
  ])('is the maximum that was signed for a receipt with %s', (_what, gas, price) => {
    expect(countedCost({ gas, price }, signed)).toBe(signedMaximum)
  })
})
