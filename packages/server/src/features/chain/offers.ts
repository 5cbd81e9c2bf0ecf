import { dayMs } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import { type Account, type AttemptRow, readAttempts, readCosts, type TransactionRow } from './chain-queries.ts'
import { assertContract, targetOf } from './contract-check.ts'
import { aboveLimit, ether, type Fees, feesFor, minGas, raisedFees } from './fees.ts'
import { type Rpc, RpcError } from './rpc.ts'

/**
 * A transaction that is in no block after this time is sent again with higher fees. Blocks come every 2 to 12 seconds.
 */
export const stuckMs = 180_000
export const maxAttempts = 20
/** Adds a reserve, because the node's estimate may be slightly too low by the time the block is made. */
const gasWithReserve = (gas: number) => Math.ceil(gas * 1.2)
const budgetMs = 7 * dayMs

type Call = Pick<TransactionRow, 'target' | 'data'>

/** What sending costs at most. */
interface Quote {
  gas: number
  fees: Fees
  cost: bigint
}

/** A transaction whose cost a person may have confirmed. */
type Bounded = Pick<TransactionRow, 'kind' | 'subject' | 'max_cost'>

/** Fees for a transaction. */
interface Offer {
  /** What the chain asks for, within TRUST_MAX_FEE_GWEI. */
  asked: Fees
  /** The same within the confirmed cost; undefined when that does not suffice. */
  fees: Fees | undefined
}

/** The command that shows the higher cost and confirms it. */
function commandOf({ kind, subject }: Bounded): string {
  const command = kind === 'validate' || kind === 'respond' ? 'verify' : kind
  return ['wardline', 'chain', command, ...(kind === 'revoke' ? [subject] : [])].join(' ')
}

/** The cost of sending exceeds the one that a person confirmed. */
export const aboveConfirmed = (row: Bounded, cost: bigint) =>
  new RpcError(
    `The transaction (${row.kind}) costs up to ${ether(cost)} now, ${ether(BigInt(row.max_cost!))} was confirmed: run \`${commandOf(row)}\` again to confirm the higher cost.`,
    'cost',
  )

/** Decides what the wallet offers for a transaction, within the operator's limits. */
export class Offers {
  readonly #deps: Pick<Deps, 'config' | 'database' | 'clock'>
  readonly #rpc: Rpc
  readonly #account: Account

  constructor(deps: Pick<Deps, 'config' | 'database' | 'clock'>, { rpc, account }: { rpc: Rpc; account: Account }) {
    this.#deps = deps
    this.#rpc = rpc
    this.#account = account
  }

  /** Returns the maximum cost of sending now. Throws RpcError when the contract is not the one meant or refuses the call. */
  async quote(call: Call): Promise<Quote> {
    const gas = await this.gas(call)
    const { asked: fees } = await this.first(gas, null)
    return { gas, fees, cost: BigInt(gas) * fees.max }
  }

  async gas({ target, data }: Call): Promise<number> {
    const rpc = this.#rpc
    await rpc.assertChain(this.#deps.config.trustChainId)
    await assertContract(rpc, { target, data })
    const estimated = await rpc.gas(this.#account.address, target, data)
    // Nodes refuse less, so that a signed transaction would keep its nonce forever, and block the next ones.
    if (estimated < minGas(data))
      throw new RpcError(
        `The RPC estimates ${estimated} gas for a transaction that needs ${minGas(data)} at least: check with another node.`,
        'wrong',
      )
    return gasWithReserve(estimated)
  }

  /**
   * Returns the higher cost that a transaction waits for; undefined while it needs none. `gas` is given when it cannot be
   * estimated.
   */
  async higherCost(row: TransactionRow, gas?: number): Promise<(Quote & { fault: RpcError }) | undefined> {
    const { database, config } = this.#deps
    if (row.max_cost === null || row.block_hash !== null || row.dropped_at !== null) return undefined
    const limit = row.gas ?? gas ?? (await this.gas({ ...row, target: targetOf(config, row) }))
    const [last, ...more] = await readAttempts(database.db, row.id)
    if (last && (more.length + 1 >= maxAttempts || !(await this.#isOutbid(last)))) return undefined
    const offer = last ? await this.raised(limit, row.max_cost, last) : await this.first(limit, row.max_cost)
    if (!offer || offer.fees) return undefined
    const cost = BigInt(limit) * offer.asked.max
    return { gas: limit, fees: offer.asked, cost, fault: aboveConfirmed(row, cost) }
  }

  async #isOutbid({ created_at, max_fee }: AttemptRow): Promise<boolean> {
    if (this.#deps.clock.now() - created_at >= stuckMs) return true
    return (await this.#rpc.fees()).base > BigInt(max_fee)
  }

  /** Returns the fees of a first attempt. Throws RpcError when they exceed TRUST_MAX_FEE_GWEI. */
  async first(gas: number, maxCost: string | null): Promise<Offer> {
    const asked = await this.#rpc.fees()
    return this.#within(gas, maxCost, (limit) => feesFor(asked, limit)) ?? this.#refuse(asked)
  }

  /**
   * Returns the fees of an attempt that replaces the last one; undefined when TRUST_MAX_FEE_GWEI leaves no room for them.
   * Throws RpcError when blocks cost more than it.
   */
  async raised(gas: number, maxCost: string | null, last: AttemptRow): Promise<Offer | undefined> {
    const { trustMaxFeeGwei } = this.#deps.config
    const asked = await this.#rpc.fees()
    if (!feesFor(asked, trustMaxFeeGwei)) return this.#refuse(asked)
    const before = { max: BigInt(last.max_fee), tip: BigInt(last.max_tip) }
    return this.#within(gas, maxCost, (limit) => {
      const now = feesFor(asked, limit)
      return now && raisedFees(before, now, limit)
    })
  }

  /** Throws RpcError when this much more exceeds TRUST_WEEKLY_BUDGET. */
  async assertBudget(more: bigint): Promise<void> {
    const { database, clock, config } = this.#deps
    const spent = await readCosts(database.db, this.#account, clock.now() - budgetMs)
    if (spent + more > config.trustWeeklyBudget)
      throw new RpcError(
        `Fees of seven days would be ${ether(spent + more)}, TRUST_WEEKLY_BUDGET is ${ether(config.trustWeeklyBudget)}: wait, or raise it.`,
        'refused',
      )
  }

  #refuse(asked: Awaited<ReturnType<Rpc['fees']>>): never {
    throw aboveLimit(asked, this.#deps.config.trustMaxFeeGwei)
  }

  /** The confirmed cost is a limit like TRUST_MAX_FEE_GWEI: only the room for a rising base fee gets smaller. */
  #within(gas: number, maxCost: string | null, offer: (limit: bigint) => Fees | undefined): Offer | undefined {
    const { trustMaxFeeGwei } = this.#deps.config
    const asked = offer(trustMaxFeeGwei)
    if (!asked) return undefined
    const price = maxCost === null ? trustMaxFeeGwei : BigInt(maxCost) / BigInt(gas)
    return { asked, fees: price < asked.max ? offer(price) : asked }
  }
}
