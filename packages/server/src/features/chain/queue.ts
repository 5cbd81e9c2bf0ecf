import type { Hex } from 'viem'
import { keccak256 } from 'viem/utils'
import { dayMs } from '../../clock.ts'
import { type Lease, LeaseLost } from '../../db/lease.ts'
import type { Deps } from '../../deps.ts'
import { randomSecret, uuidV7 } from '../../ids.ts'
import type { Signer } from '../../wallet.ts'
import {
  type Account,
  type AttemptRow,
  addAlone,
  addSender,
  addTransaction,
  changeHeld,
  claimAccount,
  readAttempts,
  readOpen,
  readSender,
  storeAttempt,
  type TransactionRow,
} from './chain-queries.ts'
import { targetOf } from './contract-check.ts'
import { countedCost, ether, type Fees } from './fees.ts'
import { nonceFault } from './nonce.ts'
import { aboveConfirmed, maxAttempts, Offers, stuckMs } from './offers.ts'
import { type Receipt, type Rpc, RpcError } from './rpc.ts'

/** Maximum transactions handled per turn: the weekly ones, and those watched for a hundred blocks. */
const turnRows = 20
/** After this many blocks, no reorganisation undoes a transaction. */
const watchedBlocks = 100
/** Transactions still pending after this time fail; the next week sends new ones. */
const pendingMs = 7 * dayMs
/** Pause after an error, doubled each time. */
const retryMs = { first: 5_000, longest: 300_000 }

type New = Pick<TransactionRow, 'kind' | 'subject' | 'target' | 'data' | 'max_cost'>

/** Reads a transaction's result from its receipt; undefined when the receipt does not show one. */
export type ReadResult = (row: TransactionRow, receipt: Receipt) => Promise<string | undefined>

interface Parts {
  rpc: Rpc
  wallet: Signer
  readResult: ReadResult
}

/**
 * Sends the wallet's transactions one at a time. Each signed transaction is stored before it is sent, so after a crash
 * the next process sends the same bytes, which the chain accepts only once. A transaction keeps its nonce until it is
 * settled, so at most one of its attempts can ever be in a block.
 */
export class TransactionQueue {
  readonly account: Account
  readonly offers: Offers
  readonly #deps: Deps
  readonly #parts: Parts
  readonly #holder = randomSecret(12)
  #isAdded = false

  constructor(deps: Deps, parts: Parts) {
    this.#deps = deps
    this.#parts = parts
    this.account = { chainId: deps.config.trustChainId, address: parts.wallet.address }
    this.offers = new Offers(deps, { rpc: parts.rpc, account: this.account })
  }

  /** Queues transactions to be sent in this order. Existing ones are unchanged. */
  async add(...rows: New[]): Promise<void> {
    const { database, clock } = this.#deps
    const now = clock.now()
    for (const [index, row] of rows.entries())
      await addTransaction(database.db, this.account, { id: uuidV7(now), ...row }, now + index)
  }

  /** Queues transactions in this order. Resolves with false while one of their kinds is unsettled. */
  async addAlone(rows: readonly New[]): Promise<boolean> {
    const { database, clock } = this.#deps
    const now = clock.now()
    await addSender(database.db, this.account)
    return addAlone(
      database.db,
      this.account,
      rows.map((row) => ({ id: uuidV7(now), ...row })),
      now,
    )
  }

  /** Periodic job: runs one turn unless another process holds the lease or nothing is open. */
  async run(): Promise<void> {
    const { database, log } = this.#deps
    if (!this.#isAdded) await addSender(database.db, this.account)
    this.#isAdded = true
    if ((await readOpen(database.db, this.account, 1)).length === 0) return
    const claimed = await claimAccount(this.#deps, this.account, this.#holder)
    if (!claimed) return
    const { lease } = claimed
    let fault: RpcError | undefined
    try {
      fault = await this.#turn(lease)
    } catch (caught) {
      if (caught instanceof LeaseLost) return
      if (!(caught instanceof RpcError)) {
        await lease.release()
        throw caught
      }
      fault = caught
    }
    if (fault) log.warn({ fault: fault.message }, 'the chain has to wait')
    await lease.release(await this.#outcome(fault))
  }

  async #outcome(fault: RpcError | undefined) {
    if (!fault) return { next_at: 0, failing_since: null, last_error: null, reported_at: null }
    const now = this.#deps.clock.now()
    const sender = await readSender(this.#deps.database.db, this.account)
    const since = sender?.failing_since ?? now
    // Waits as long as the outage has lasted so far: this doubles the pause without storing a count.
    const pause = Math.min(Math.max(now - since, retryMs.first), retryMs.longest)
    return { next_at: now + pause, failing_since: since, last_error: fault.message }
  }

  /** Returns the first error that did not stop the turn from handling the other transactions. */
  async #turn(lease: Lease): Promise<RpcError | undefined> {
    await this.#parts.rpc.assertChain(this.#deps.config.trustChainId)
    const head = await this.#parts.rpc.head()
    const rows = await readOpen(this.#deps.database.db, this.account, turnRows)
    let first: RpcError | undefined
    let isFree = true
    for (const row of rows) {
      if (row.state === 'pending') continue
      try {
        const isInBlock = await this.#follow(lease, row, head)
        if (!isInBlock) isFree = false
      } catch (fault) {
        if (!(fault instanceof RpcError) || fault.kind === 'unavailable') throw fault
        first ??= fault
        isFree = false
      }
    }
    // One nonce at a time: transactions queued behind a stuck one would wait on the chain, where they cannot be
    // withdrawn.
    if (isFree) first ??= await this.#sendNext(lease, rows)
    return first
  }

  /**
   * Sends the first transaction that can be sent. Returns why those before it cannot: one may be what they wait for.
   * Those of one subject keep their order: a response has to follow its request.
   */
  async #sendNext(lease: Lease, rows: readonly TransactionRow[]): Promise<RpcError | undefined> {
    let first: RpcError | undefined
    const waiting = new Set<string>()
    for (const row of rows.filter(({ state }) => state === 'pending')) {
      if (waiting.has(row.subject)) continue
      try {
        await this.#send(lease, row)
        return first
      } catch (fault) {
        if (!(fault instanceof RpcError) || !['contract', 'cost', 'unsigned'].includes(fault.kind)) throw fault
        first ??= fault
        waiting.add(row.subject)
      }
    }
    return first
  }

  /** Checks a sent transaction. Resolves with whether it or another transaction with its nonce is in a block. */
  async #follow(lease: Lease, row: TransactionRow, head: number): Promise<boolean> {
    const { database } = this.#deps
    const attempts = await readAttempts(database.db, row.id)
    for (const attempt of attempts) {
      const receipt = await this.#parts.rpc.receipt(
        attempt.hash,
        row.sender,
        attempt.is_empty ? row.sender : row.target,
      )
      if (!receipt) continue
      const lowest = attempts.map(({ max_fee }) => BigInt(max_fee)).reduce((one, other) => (one < other ? one : other))
      const signed = { gas: BigInt(row.gas!), max: BigInt(attempt.max_fee), lowest }
      await this.#found(lease, row, {
        receipt,
        cost: countedCost(receipt.paid, signed),
        isEmpty: attempt.is_empty === 1,
        head,
      })
      return true
    }
    if (row.state === 'confirmed') {
      this.#deps.log.warn({ transaction: row.id }, 'a reorganisation took a confirmed transaction back')
      const gone = { tx_hash: null, block_number: null, block_hash: null, confirmed_at: null, watched: 0 } as const
      await changeHeld(database, lease, row, { ...gone, state: 'sent', result: null })
      return false
    }
    if (row.block_hash !== null)
      await changeHeld(database, lease, row, { tx_hash: null, block_number: null, block_hash: null })
    if ((await this.#parts.rpc.nonce(row.sender)) > row.nonce!) return this.#replaced(lease, row, head)
    if (row.replaced_block !== null) await changeHeld(database, lease, row, { replaced_block: null })
    await this.#offerAgain(lease, row, attempts)
    return false
  }

  async #found(
    lease: Lease,
    row: TransactionRow,
    { receipt, cost: counted, isEmpty, head }: { receipt: Receipt; cost: bigint; isEmpty: boolean; head: number },
  ): Promise<void> {
    const { database, clock, config } = this.#deps
    const place = { tx_hash: receipt.hash, block_number: receipt.blockNumber, block_hash: receipt.blockHash }
    const isMoved = receipt.blockHash !== row.block_hash
    const confirmations = head - receipt.blockNumber + 1
    if (confirmations < config.trustConfirmations) {
      if (!isMoved) return
      // A reorganisation can put the transaction into a younger block, so counting starts over.
      await changeHeld(database, lease, row, { ...place, state: 'sent', confirmed_at: null, watched: 0, result: null })
      return
    }
    if (row.state === 'confirmed' && !isMoved) {
      if (confirmations > watchedBlocks) await changeHeld(database, lease, row, { watched: 0 })
      return
    }
    const cost = { cost: String(counted), replaced_block: null }
    if (!receipt.ok || isEmpty) {
      const error = isEmpty
        ? `An operator dropped it: an empty transaction used its nonce ${row.nonce} in block ${receipt.blockNumber}.`
        : `The contract ${row.target} reverted it in block ${receipt.blockNumber}.`
      await changeHeld(database, lease, row, { ...place, ...cost, state: 'failed', error, watched: 0, result: null })
      return
    }
    const result = await this.#parts.readResult(row, receipt)
    if (result === undefined)
      throw new RpcError(`The receipt of a transaction lacks what ${row.target} must have logged.`, 'wrong')
    const confirmed_at = clock.now()
    const watched = confirmations > watchedBlocks ? 0 : 1
    await changeHeld(database, lease, row, { ...place, ...cost, state: 'confirmed', confirmed_at, watched, result })
    this.#deps.log.info({ kind: row.kind, hash: receipt.hash }, 'a transaction is confirmed')
  }

  /**
   * Handles a nonce that was used by a transaction from elsewhere. Sending with a new nonce could execute the
   * transaction twice, so this is left to a person.
   */
  async #replaced(lease: Lease, row: TransactionRow, head: number): Promise<boolean> {
    const { database, config } = this.#deps
    if (row.replaced_block === null) {
      await changeHeld(database, lease, row, { replaced_block: head })
      return false
    }
    if (head < row.replaced_block + config.trustConfirmations) return false
    const error = `Another program used nonce ${row.nonce} of ${row.sender}: give the service a wallet that nothing else uses.`
    await changeHeld(database, lease, row, { state: 'failed', error, watched: 0 })
    return true
  }

  /**
   * Sends the transaction again, because the node may have dropped it. Raises the fees once it is stuck, up to the
   * confirmed cost. One that an operator dropped is replaced by an empty transaction, whose fees rise like its own; what
   * was confirmed for its call does not limit that.
   */
  async #offerAgain(lease: Lease, row: TransactionRow, attempts: readonly AttemptRow[]): Promise<void> {
    const last = attempts[0]!
    const isEmpty = row.dropped_at !== null
    const count = attempts.filter(({ is_empty }) => (is_empty === 1) === isEmpty).length
    if (count > 0) {
      const isTooLow = await this.#isTooLow(last.raw)
      if ((!isTooLow && this.#deps.clock.now() - last.created_at < stuckMs) || count >= maxAttempts) return
    }
    const offer = await this.offers.raised(row.gas!, isEmpty ? null : row.max_cost, last)
    if (!offer && count > 0) return
    if (!offer)
      throw new RpcError(
        'TRUST_MAX_FEE_GWEI leaves no room for the fees of a transaction that replaces the dropped one: raise it.',
        'refused',
      )
    const { fees, asked } = offer
    if (!fees) throw aboveConfirmed(row, BigInt(row.gas!) * asked.max)
    await this.offers.assertBudget(BigInt(row.gas!) * fees.max - BigInt(row.cost!))
    await this.#signAndSend(lease, row, { nonce: row.nonce!, gas: row.gas!, fees })
  }

  /** Sends it again. Resolves with whether the node refuses it because the base fee of blocks has risen above its offer. */
  async #isTooLow(raw: string): Promise<boolean> {
    try {
      await this.#parts.rpc.send(raw)
      return false
    } catch (fault) {
      if (fault instanceof RpcError && /less than block base fee|fee ?cap.*base ?fee/i.test(fault.message)) return true
      throw fault
    }
  }

  async #send(lease: Lease, queued: TransactionRow): Promise<void> {
    const { database, clock, config } = this.#deps
    const { rpc, wallet } = this.#parts
    const row = { ...queued, target: targetOf(config, queued) }
    if (row.target !== queued.target) await changeHeld(database, lease, row, { target: row.target })
    const giveUp = (error: string) => changeHeld(database, lease, row, { state: 'failed', error })
    if (clock.now() - row.created_at > pendingMs) {
      const sender = await readSender(database.db, this.account)
      return giveUp(`It could not be sent for seven days. ${sender?.last_error ?? ''}`.trim())
    }
    const gas = await this.offers.gas(row).catch(async (fault) => {
      if (fault instanceof RpcError && fault.kind === 'revert')
        await giveUp(`The contract refuses it. ${fault.message}`)
      throw fault
    })
    const { fees, asked } = await this.offers.first(gas, row.max_cost)
    if (!fees) throw aboveConfirmed(row, BigInt(gas) * asked.max)
    const cost = BigInt(gas) * fees.max
    await this.offers.assertBudget(cost)
    const balance = await rpc.balance(wallet.address)
    if (balance < cost)
      throw new RpcError(
        `${wallet.address} has ${ether(balance)}, and the transaction may cost ${ether(cost)}: send it some.`,
        'refused',
      )
    const { next_nonce: used } = (await readSender(database.db, this.account))!
    const [nonce, waiting] = [await rpc.nonce(wallet.address), await rpc.nonce(wallet.address, 'pending')]
    const fault = nonceFault({ counted: nonce, waiting, used, vouched: config.trustWalletNonce })
    // A node that names another one each time is reported once.
    if (fault?.isJump) await database.batch([lease.change({ refused_nonce: Math.max(nonce, waiting) })])
    if (fault) throw new RpcError(fault.message, 'wrong')
    await this.#signAndSend(lease, row, { nonce, gas, fees })
  }

  async #signAndSend(
    lease: Lease,
    row: TransactionRow,
    { nonce, gas, fees }: { nonce: number; gas: number; fees: Fees },
  ): Promise<void> {
    const { database, clock, config } = this.#deps
    const isEmpty = row.dropped_at !== null
    const raw = await this.#parts.wallet.signTransaction({
      type: 'eip1559',
      chainId: config.trustChainId,
      nonce,
      gas: BigInt(gas),
      maxFeePerGas: fees.max,
      maxPriorityFeePerGas: fees.tip,
      to: (isEmpty ? row.sender : row.target) as Hex,
      data: isEmpty ? '0x' : (row.data as Hex),
      value: 0n,
    })
    const now = clock.now()
    const hash = keccak256(raw)
    const paid = { max_fee: String(fees.max), max_tip: String(fees.tip) }
    await storeAttempt(database, lease, row, {
      attempt: { hash, transaction_id: row.id, raw, ...paid, created_at: now, is_empty: isEmpty ? 1 : 0 },
      changes: {
        state: 'sent',
        nonce,
        gas,
        cost: String(BigInt(gas) * fees.max),
        sent_at: row.sent_at ?? now,
        error: null,
      },
      nextNonce: nonce + 1,
    })
    await this.#parts.rpc.send(raw)
  }
}
