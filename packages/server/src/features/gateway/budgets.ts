import { type BudgetView, eventTypes, limits } from '@wardline/contract'
import { matchesPattern } from '@wardline/text'
import { dayMs, isoTime, isoTimeOrNull } from '../../clock.ts'
import { readBudgets } from '../../config/gateway.ts'
import type { Budget, Prices } from '../../config/gateway-budgets.ts'
import { rowsOf, type Statement } from '../../db/database.ts'
import { GroupCommit } from '../../db/group-commit.ts'
import type { Deps } from '../../deps.ts'
import { AppError, DatabaseError } from '../../errors.ts'
import type { Ingest } from '../events/ingest.ts'
import { readOperatorTagsOf } from '../instances/tag-statements.ts'
import type { Amount } from './charges.ts'
import {
  type BudgetKey,
  type BudgetRow,
  deleteBudgetsBefore,
  findBudgetRow,
  readBudgetRows,
  reportStatements,
  reserveStatement,
  settleStatement,
} from './queries.ts'

/** Share of a budget at which it is reported. */
const warnAt = 0.8
/** More contention than this is rather a budget that is used up. */
const maxAttempts = 3
/** Reports that this process remembers; without memory it asks the database again. */
const maxReported = 10_000
/** Days whose use is stored, for questions about the last month. */
const keptDays = 31

const nanoPerUsd = 1e9

interface Reserved {
  budget: Budget
  key: BudgetKey
}

/** What a call holds of its budgets until it is settled. */
export interface Reservation {
  instanceId: string
  amount: Amount
  rows: readonly Reserved[]
}

type Change =
  | { kind: 'settle'; reservation: Reservation; charged: Amount }
  | { kind: 'reserve'; reservation: Reservation }

const nothing: Amount = { tokens: 0, nanoUsd: 0 }
const dayOf = (now: number): string => isoTime(now).slice(0, 10)
const renewalOf = (day: string): number => Date.parse(`${day}T00:00:00Z`) + dayMs

const maxOf = ({ tokens, usd }: Budget): Amount => ({
  tokens: tokens ?? Number.MAX_SAFE_INTEGER,
  nanoUsd: usd === null ? Number.MAX_SAFE_INTEGER : Math.round(usd * nanoPerUsd),
})
const fits = ({ tokens, nanoUsd }: Amount, max: Amount): boolean => tokens <= max.tokens && nanoUsd <= max.nanoUsd

const usedWith = (row: BudgetRow | undefined, { tokens, nanoUsd }: Amount): Amount => ({
  tokens: (row?.tokens ?? 0) + (row?.reserved_tokens ?? 0) + tokens,
  nanoUsd: (row?.nano_usd ?? 0) + (row?.reserved_nano_usd ?? 0) + nanoUsd,
})

const orderOf = ({ budget, instance_id }: BudgetKey): string => `${budget}\n${instance_id}`

/**
 * Budgets of the calls through the gateway. What a call can use at most is added to the reservations of its budgets
 * before it is made, by a statement that fails beyond the limit: any number of processes together stay within it. A
 * process that crashes leaves the reservations of its open calls, which thus count as used.
 */
export class ModelBudgets {
  readonly prices: Prices
  readonly #budgets: readonly Budget[]
  readonly #deps: Deps
  readonly #ingest: Pick<Ingest, 'own' | 'prepare'>
  readonly #changes: GroupCommit<Change, readonly BudgetRow[][]>
  readonly #reported = new Set<string>()

  constructor(deps: Deps, { ingest }: { ingest: Pick<Ingest, 'own' | 'prepare'> }) {
    this.#deps = deps
    this.#ingest = ingest
    const { budgets, prices } = readBudgets(deps.config)
    this.#budgets = budgets
    this.prices = prices
    this.#changes = new GroupCommit({
      queue: 'budgets',
      clock: deps.clock,
      metrics: deps.metrics,
      commit: (changes) => this.#commit(changes),
      weigh: ({ kind, reservation }) => ({
        rows: reservation.rows.length,
        bytes: 0,
        owner: reservation.instanceId,
        // A settlement frees what others wait for.
        isUrgent: kind === 'settle',
      }),
    })
  }

  /**
   * Reserves an amount of all budgets of an agent; undefined if it has none. Throws AppError `quota_exceeded` if one of them
   * has no room, and rejects if the database is away.
   */
  async reserve(instanceId: string, amount: Amount): Promise<Reservation | undefined> {
    const reservation = { instanceId, amount, rows: await this.#rowsOf(instanceId) }
    if (reservation.rows.length === 0) return undefined
    let refused: Reserved | undefined
    let row: BudgetRow | undefined
    for (let attempt = 1; attempt <= maxAttempts; attempt++) {
      refused = await this.#findRefused(reservation)
      if (!refused) return reservation
      row = await findBudgetRow(this.#deps.database.db, refused.key)
      // Calls that another budget refused held it for a moment.
      if (!fits(usedWith(row, amount), maxOf(refused.budget))) break
    }
    throw await this.#refusal(reservation, refused!, row)
  }

  /** Reserves in all budgets, or in none: then it returns one that has no room. */
  async #findRefused(reservation: Reservation): Promise<Reserved | undefined> {
    const tooLarge = reservation.rows.find(({ budget }) => !fits(reservation.amount, maxOf(budget)))
    if (tooLarge) return tooLarge
    const results = await this.#changes.add({ kind: 'reserve', reservation })
    const refused = reservation.rows.find((_, index) => results[index]!.length === 0)
    if (!refused) return undefined
    const held = reservation.rows.filter((_, index) => results[index]!.length > 0)
    // Until then the other budgets hold a little too much, never too little.
    if (held.length > 0) await this.settle({ ...reservation, rows: held }, nothing)
    return refused
  }

  /** Charges an amount in place of the reservation. If the database is away, what was reserved stays charged. */
  async settle(reservation: Reservation, charged: Amount): Promise<void> {
    const { log } = this.#deps
    try {
      const results = await this.#changes.add({ kind: 'settle', reservation, charged })
      for (const [index, { budget, key }] of reservation.rows.entries()) {
        const [row] = results[index]!
        if (row && row.warned_at === null && shareOf(budget, row) >= warnAt) {
          await this.#report({ budget, key }, reservation.instanceId, 'warned_at', row)
        }
      }
    } catch (fault) {
      log.warn({ err: fault, instance_id: reservation.instanceId }, 'the use of a model call is not settled')
    }
  }

  whenIdle(): Promise<void> {
    return this.#changes.whenIdle()
  }

  /** Returns the use of today: a row for each budget, and for each agent of a budget that each agent has. */
  async list(): Promise<BudgetView[]> {
    const day = dayOf(this.#deps.clock.now())
    const { db } = this.#deps.database
    const lists = await Promise.all(
      this.#budgets.map(async (budget) => {
        const rows = await readBudgetRows(db, day, budget.name, budget.eachAgent ? limits.budgetAgents : 1)
        const shown: (BudgetRow | undefined)[] = rows.length > 0 || budget.eachAgent ? rows : [undefined]
        return shown.map((row) => viewOf(budget, day, row))
      }),
    )
    return lists.flat()
  }

  /** Deletes the use of days that are no longer kept. */
  forget(stopping?: AbortSignal): Promise<void> {
    const { database, clock } = this.#deps
    return deleteBudgetsBefore(database.db, dayOf(clock.now() - keptDays * dayMs), stopping)
  }

  async #rowsOf(instanceId: string): Promise<Reserved[]> {
    const { database, clock } = this.#deps
    // Tags that an agent gives itself count neither for it nor against the budget of others.
    const byTag = this.#budgets.some(({ tags }) => tags.length > 0)
    const tags = byTag ? ((await readOperatorTagsOf(database.db, [instanceId])).get(instanceId) ?? []) : []
    const day = dayOf(clock.now())
    return this.#budgets
      .filter(
        (budget) =>
          budget.tags.some((tag) => tags.includes(tag)) ||
          budget.instances.some((pattern) => matchesPattern(pattern, instanceId)),
      )
      .map((budget) => ({
        budget,
        key: { day, budget: budget.name, instance_id: budget.eachAgent ? instanceId : '' },
      }))
  }

  /** All changes that wait, in one transaction, in one order of rows: processes must not wait for each other. */
  async #commit(changes: Change[]): Promise<BudgetRow[][][]> {
    const { database } = this.#deps
    const { db } = database
    const parts = changes.flatMap((change, place) =>
      change.reservation.rows.map(({ budget, key }, index) => {
        const { amount } = change.reservation
        const statement =
          change.kind === 'settle'
            ? settleStatement(db, key, change.charged, amount)
            : reserveStatement(db, key, amount, maxOf(budget))
        return { place, index, statement, order: orderOf(key), isFirst: change.kind === 'settle' }
      }),
    )
    parts.sort((a, b) => (a.order === b.order ? Number(b.isFirst) - Number(a.isFirst) : a.order < b.order ? -1 : 1))
    const rows = await database.batch(parts.map(({ statement }) => statement))
    const results: BudgetRow[][][] = changes.map(() => [])
    for (const [at, { place, index }] of parts.entries()) results[place]![index] = rows[at] as unknown as BudgetRow[]
    return results
  }

  async #refusal(
    { instanceId, amount }: Reservation,
    reserved: Reserved,
    row: BudgetRow | undefined,
  ): Promise<AppError> {
    const { budget, key } = reserved
    this.#deps.metrics.budgetRefusals.inc({ budget: budget.name })
    await this.#report(reserved, instanceId, 'refused_at', row)
    const renewsAt = renewalOf(key.day)
    return new AppError(
      'quota_exceeded',
      `The budget ${budget.name} of Wardline has no room for this call: ${useText(budget, row)}, and it may take up to ${amountText(budget, amount)}. It renews at ${isoTime(renewsAt)}.`,
      Math.max(1, Math.ceil((renewsAt - this.#deps.clock.now()) / 1000)),
    )
  }

  /** Stores an event once a day for each budget, in whichever process comes first. Never rejects. */
  async #report(
    { budget, key }: Reserved,
    instanceId: string,
    column: 'warned_at' | 'refused_at',
    row: BudgetRow | undefined,
  ): Promise<void> {
    const { database, clock, log } = this.#deps
    const name = `${key.day} ${column} ${orderOf(key)}`
    if (this.#reported.has(name)) return
    if (this.#reported.size >= maxReported) this.#reported.clear()
    this.#reported.add(name)
    const renewal = isoTime(renewalOf(key.day))
    const isRefused = column === 'refused_at'
    const event = this.#ingest.own({
      severity: 'warning',
      event_type: isRefused ? eventTypes.budgetUsedUp : eventTypes.budgetWarning,
      description: `Budget ${budget.name}: ${useText(budget, row)}. ${isRefused ? 'Calls for which it has no room are refused until it renews' : 'It renews'} at ${renewal}.`,
      instance_id: instanceId,
      metadata: { budget: budget.name, ...figuresOf(budget, row), renews_at: renewal },
    })
    const { statements, stored } = this.#ingest.prepare([event])
    const all: Statement[] = [...reportStatements(database, key, column, clock.now()), ...statements]
    try {
      stored(rowsOf(all, await database.batch(all)))
    } catch (fault) {
      // Another process reported it.
      if (fault instanceof DatabaseError && fault.stale) return
      this.#reported.delete(name)
      log.warn({ err: fault, budget: budget.name }, 'the use of a budget is not reported')
    }
  }
}

function figuresOf({ tokens, usd }: Budget, row: BudgetRow | undefined) {
  return {
    tokens: { limit: tokens, used: row?.tokens ?? 0, reserved: row?.reserved_tokens ?? 0 },
    usd: {
      limit: usd,
      used: (row?.nano_usd ?? 0) / nanoPerUsd,
      reserved: (row?.reserved_nano_usd ?? 0) / nanoPerUsd,
    },
  }
}

function shareOf(budget: Budget, row: BudgetRow): number {
  const max = maxOf(budget)
  return Math.max(row.tokens / max.tokens, row.nano_usd / max.nanoUsd)
}

const number = new Intl.NumberFormat('en-US', { maximumFractionDigits: 4 })

function amountText({ tokens, usd }: Budget, amount: Amount): string {
  const parts = [
    ...(tokens === null ? [] : [`${number.format(amount.tokens)} tokens`]),
    ...(usd === null ? [] : [`${number.format(amount.nanoUsd / nanoPerUsd)} USD`]),
  ]
  return parts.join(' and ')
}

function useText(budget: Budget, row: BudgetRow | undefined): string {
  const { tokens, usd } = figuresOf(budget, row)
  const text = ({ limit, used, reserved }: typeof tokens, unit: string) =>
    limit === null
      ? []
      : [
          `${number.format(used)} of ${number.format(limit)} ${unit} used today${reserved > 0 ? ` and ${number.format(reserved)} reserved` : ''}`,
        ]
  return [...text(tokens, 'tokens'), ...text(usd, 'USD')].join(', ')
}

function viewOf(budget: Budget, day: string, row: BudgetRow | undefined): BudgetView {
  return {
    name: budget.name,
    for: { tags: [...budget.tags], instances: [...budget.instances] },
    each_agent: budget.eachAgent,
    instance_id: row && row.instance_id !== '' ? row.instance_id : null,
    per: 'day',
    ...figuresOf(budget, row),
    warned_at: isoTimeOrNull(row?.warned_at ?? null),
    refused_at: isoTimeOrNull(row?.refused_at ?? null),
    renews_at: isoTime(renewalOf(day)),
  }
}
