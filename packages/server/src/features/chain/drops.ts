import type { ChainDropPlan } from '@wardline/contract'
import { changeGuarded } from '../../db/guarded-change.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import type { TransactionRow } from './chain-queries.ts'
import { dropStatements, readById } from './drop-queries.ts'
import { ether } from './fees.ts'
import type { TransactionQueue } from './queue.ts'
import { type Rpc, RpcError } from './rpc.ts'

type Action = ChainDropPlan['action']

const conflict = (message: string) => new AppError('conflict', message)

/** Throws AppError unless the transaction can still be dropped. */
function assertOpen({ id, state, block_number, dropped_at }: TransactionRow): void {
  if (state === 'confirmed' || state === 'failed') throw conflict(`The transaction ${id} is already ${state}.`)
  if (block_number !== null)
    throw conflict(`The transaction ${id} is in block ${block_number}: wait for its confirmation.`)
  if (dropped_at !== null)
    throw conflict(`The transaction ${id} was already dropped: wait for the empty one that replaces it.`)
}

/** Ends unconfirmed transactions, which otherwise block all later ones of the wallet. */
export class Drops {
  readonly #deps: Pick<Deps, 'config' | 'database' | 'clock' | 'log'>
  readonly #queue: TransactionQueue
  readonly #rpc: Pick<Rpc, 'assertChain' | 'nonce'>

  constructor(
    deps: Pick<Deps, 'config' | 'database' | 'clock' | 'log'>,
    { queue, rpc }: { queue: TransactionQueue; rpc: Pick<Rpc, 'assertChain' | 'nonce'> },
  ) {
    this.#deps = deps
    this.#queue = queue
    this.#rpc = rpc
  }

  /** Throws AppError `not_found`, `conflict`, `unavailable`. */
  async plan(id: string): Promise<ChainDropPlan> {
    return (await this.#read(id)).plan
  }

  /** Drops the transaction, provided that the plan still has this action. Throws AppError like `plan`. */
  async drop(id: string, action: Action, actor: Actor): Promise<void> {
    const { database, clock, log } = this.#deps
    await changeGuarded(database, async () => {
      const { row, plan } = await this.#read(id)
      if (plan.action !== action)
        throw conflict(`The transaction ${id} would be dropped by ${plan.action} now: read the plan again.`)
      const now = clock.now()
      const { kind, nonce, counted } = plan
      const audited = {
        action: 'chain.drop',
        target: id,
        before: { kind, nonce, state: row.state },
        after: { action, counted },
      }
      const error =
        nonce === null
          ? 'An operator dropped it before it was sent.'
          : `An operator dropped it: its nonce ${nonce} is out of reach, the chain counts ${counted}.`
      // Another transaction can have the nonce later, which is unique among those of the wallet.
      const givenUp = { state: 'failed', error, nonce: null, cost: null, watched: 0 } as const
      const changes = action === 'replace' ? { dropped_at: now, stuck_reported_at: null } : givenUp
      const nextNonce = action === 'replace' ? undefined : (counted ?? undefined)
      return {
        statements: [
          ...dropStatements(database, row, changes, nextNonce),
          ...auditStatements(database, actor, audited, now),
        ],
        result: () => {},
      }
    })
    log.info({ actor: actor.keyId, transaction: id, action }, 'a transaction was dropped')
  }

  async #read(id: string): Promise<{ row: TransactionRow; plan: ChainDropPlan }> {
    const row = await readById(this.#deps.database, this.#queue.account, id)
    if (!row)
      throw new AppError('not_found', `The wallet has no transaction ${id}: \`wardline chain status\` lists them.`)
    assertOpen(row)
    const { kind, nonce } = row
    const plan = { id, kind, nonce, counted: null, action: 'give_up', max_cost: null } as const
    if (nonce === null) return { row, plan }
    const counted = await this.#count(row.sender)
    if (counted > nonce)
      throw conflict(`The nonce ${nonce} is already used: the transaction ends by itself after the confirmations.`)
    if (counted < nonce) return { row, plan: { ...plan, counted } }
    // The empty transaction has the gas limit of the dropped one, because some chains need more than 21,000.
    const max_cost = ether(BigInt(row.gas!) * this.#deps.config.trustMaxFeeGwei)
    return { row, plan: { ...plan, counted, action: 'replace', max_cost } }
  }

  async #count(sender: string): Promise<number> {
    try {
      await this.#rpc.assertChain(this.#deps.config.trustChainId)
      return await this.#rpc.nonce(sender)
    } catch (fault) {
      if (fault instanceof RpcError) throw new AppError('unavailable', fault.message)
      throw fault
    }
  }
}
