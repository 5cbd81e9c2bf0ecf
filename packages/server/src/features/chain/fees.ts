import { RpcError } from './rpc.ts'

export interface Fees {
  /** The most that a unit of gas may cost, and what of it goes to the block's maker. */
  max: bigint
  tip: bigint
}

/** Where nobody offers anything: a thousandth of a gwei. */
const minTip = 1_000_000n

const gwei = (fee: bigint): string => String(Number(fee) / 1e9)

/** Room for the base fee to double, as it can within six blocks, but never above the operator's limit. */
export function feesFor({ base, tip }: { base: bigint; tip: bigint }, limit: bigint): Fees {
  // A node that asks for a tip above the base fee by far would only cost money.
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

/** Nodes replace a transaction for a tenth more of both; undefined when the operator's limit is below that. */
export function raisedFees(before: Fees, now: Fees, limit: bigint): Fees | undefined {
  const larger = (one: bigint, other: bigint) => (one > other ? one : other)
  const max = larger(oneEighthMore(before.max), now.max)
  const tip = larger(oneEighthMore(before.tip), now.tip)
  return max <= limit && tip <= max ? { max, tip } : undefined
}
