import { RpcError } from './rpc.ts'

export interface Fees {
  /** Maximum price per unit of gas, and the part of it offered as the tip to the block's producer. */
  max: bigint
  tip: bigint
}

/** Used when recent blocks paid no tip: a thousandth of a gwei. */
const minTip = 1_000_000n

const gwei = (fee: bigint): string => String(Number(fee) / 1e9)

/** Formats wei as a decimal number of the chain's currency, such as `0.0123`. */
export const ether = (amount: bigint): string => {
  const digits = amount.toString().padStart(19, '0')
  return `${digits.slice(0, -18)}.${digits.slice(-18)}`.replace(/\.?0+$/, '')
}

const smaller = (one: bigint, other: bigint) => (one < other ? one : other)
const larger = (one: bigint, other: bigint) => (one > other ? one : other)

/** What the chain asks for: the base fee of the next block, and the tip that others pay. */
interface AskedFees {
  base: bigint
  tip: bigint
}

/**
 * Leaves room for the base fee to double, as it can within six blocks, but never exceeds the limit. Undefined when blocks
 * cost more than the limit now.
 */
export function feesFor({ base, tip }: AskedFees, limit: bigint): Fees | undefined {
  // The node suggests the tip, and a lying one that gets a part of it could ask for all that the limit leaves. Half of
  // the base fee is more than others usually pay. Where it is too little, the fees rise while the transaction is stuck.
  const wanted = larger(minTip, smaller(tip, base / 2n))
  const offered = wanted > limit - base ? limit - base : wanted
  if (base >= limit || offered < minTip) return undefined
  const max = 2n * base + offered
  return { max: max > limit ? limit : max, tip: offered }
}

export const aboveLimit = ({ base }: AskedFees, limit: bigint) =>
  new RpcError(
    `The chain asks for ${gwei(base + minTip)} gwei, TRUST_MAX_FEE_GWEI allows ${gwei(limit)}: wait, or raise it.`,
    'refused',
  )

const oneEighthMore = (fee: bigint) => fee + (fee + 7n) / 8n

/**
 * Nodes accept a replacement only if both fees rise by at least a tenth. Undefined when that exceeds the limit.
 */
export function raisedFees(before: Fees, now: Fees, limit: bigint): Fees | undefined {
  const max = larger(oneEighthMore(before.max), now.max)
  const tip = larger(oneEighthMore(before.tip), now.tip)
  return max <= limit && tip <= max ? { max, tip } : undefined
}

/** Gas of a transaction without data; every other one needs more. */
const intrinsicGas = 21_000n

/** Returns the gas that a transaction with this data needs at least on every chain (EIP-2028). */
export const minGas = (data: string): number =>
  Buffer.from(data.slice(2), 'hex').reduce((sum, byte) => sum + (byte === 0 ? 4 : 16), Number(intrinsicGas))

interface Signed {
  gas: bigint
  /** Maximum price of the attempt in the block, and the lowest one of all attempts. */
  max: bigint
  lowest: bigint
}

/**
 * Returns the cost that counts towards the budget. A lying node could free the budget by a receipt with a low cost, so
 * what cannot be right counts as the maximum that was signed. The lowest maximum was about twice the base fee, which
 * may have halved since.
 */
export function countedCost({ gas, price }: { gas: bigint; price: bigint }, signed: Signed): bigint {
  const isPossible = gas >= intrinsicGas && gas <= signed.gas && price >= signed.lowest / 4n && price <= signed.max
  return isPossible ? gas * price : signed.gas * signed.max
}
