import { RpcError } from './rpc.ts'

export interface Fees {
  /** Maximum price per unit of gas, and the part of it offered as the tip to the block's producer. */
  max: bigint
  tip: bigint
}

/** Used when recent blocks paid no tip: a thousandth of a gwei. */
const minTip = 1_000_000n

const gwei = (fee: bigint): string => String(Number(fee) / 1e9)

/** Leaves room for the base fee to double, as it can within six blocks, but never exceeds the operator's limit. */
export function feesFor({ base, tip }: { base: bigint; tip: bigint }, limit: bigint): Fees {
  // The node suggests the tip, so it is limited to what the operator's limit leaves above the base fee.
  const wanted = tip < minTip ? minTip : tip
  const offered = wanted > limit - base ? limit - base : wanted
  if (base >= limit || offered < minTip)
    throw new RpcError(
      `The chain asks for ${gwei(base + minTip)} gwei, TRUST_MAX_FEE_GWEI allows ${gwei(limit)}: wait, or raise it.`,
      'refused',
    )
  const max = 2n * base + offered
  return { max: max > limit ? limit : max, tip: offered }
}

const oneEighthMore = (fee: bigint) => fee + (fee + 7n) / 8n

/**
 * Nodes accept a replacement only if both fees rise by at least a tenth. Undefined when that exceeds the operator's
 * limit.
 */
export function raisedFees(before: Fees, now: Fees, limit: bigint): Fees | undefined {
  const larger = (one: bigint, other: bigint) => (one > other ? one : other)
  const max = larger(oneEighthMore(before.max), now.max)
  const tip = larger(oneEighthMore(before.tip), now.tip)
  return max <= limit && tip <= max ? { max, tip } : undefined
}
