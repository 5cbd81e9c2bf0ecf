import { AppError } from './errors.ts'

/** Work that can be paused at each yield and continued later. */
export type Slices<Result> = Generator<void, Result, void>

/** Units between two yields: about a millisecond, see `WorkBudget`. */
export const sliceUnits = 500_000

/**
 * Budget of work units. A unit is about the cost of reading one character, one or two nanoseconds. Counting units
 * instead of time gives the same result for the same input, however busy the machine is.
 */
export class WorkBudget {
  #left: number
  #sinceYield = 0
  #spent = 0
  #isExhausted = false
  #isSpent = false

  constructor(units: number) {
    this.#left = units
  }

  /** Charges work before it is done. If it returns false, the work must be skipped. */
  take(units: number): boolean {
    if (units > this.#left) this.#isSpent = true
    if (this.#isSpent) return false
    this.#left -= units
    this.count(units)
    return true
  }

  /** Counts work outside the budget, so that it yields as well. */
  count(units: number): void {
    this.#sinceYield += units
    this.#spent += units
  }

  get spent(): number {
    return this.#spent
  }

  /** Marks that work was skipped because of another limit. Other work continues. */
  exhaust(): void {
    this.#isExhausted = true
  }

  /** Whether any work was skipped. */
  get isExhausted(): boolean {
    return this.#isExhausted || this.#isSpent
  }

  /** Whether the budget has refused work, and refuses all further work. */
  get isSpent(): boolean {
    return this.#isSpent
  }

  /** Whether the work should yield now. */
  get isDue(): boolean {
    return this.#sinceYield >= sliceUnits
  }

  /** Whether the work should yield now. Returning true starts the next slice. */
  isSliceOver(): boolean {
    if (!this.isDue) return false
    this.#sinceYield = 0
    return true
  }
}

/**
 * Above this total, owners with a started piece get no more. Each piece keeps up to 64 KiB of text and its results, or
 * a batch.
 */
const maxPieces = 64
/** Pieces within their first slice that wait, per owner and in total. Each keeps a request body in memory. */
const maxWaiting = { ofOwner: 1_024, inAll: 8_192 }
const retryAfterSeconds = 1
/** Milliseconds between turns during urgent work, so that other work still progresses under a flood of it. */
const urgentPauseMs = 10
/** Every n-th turn of an owner's started pieces goes to the one that waits longest, to prevent starvation. */
const longestEvery = 8

interface PieceOptions {
  /** Maximum pieces of this owner past their first slice at a time; more are refused. */
  max: number
  /** Whether the caller has disconnected, which ends the work at its next turn. */
  isAbandoned?: () => boolean
}

/** Work of one request, split into slices. */
export interface Piece {
  /** Creates a budget whose spent units count for this piece. */
  budget(units: number): WorkBudget
  /** Waits for a later event loop turn. Rejects with AppError `overloaded` if the work is refused or abandoned. */
  nextTurn(): Promise<void>
  /** Runs slices in this turn of the event loop while it has room, then in later ones. Short work costs no turn. */
  inTurns<Result>(work: Slices<Result>): Promise<Result>
  /**
   * Lets the owner's other pieces go first from now on. For the costly rest of the work, so that it does not delay what
   * is found cheaply.
   */
  yieldToOthers(): void
  /** Units spent so far by all budgets of this piece. */
  spent(): number
  /** Releases the piece's place. Must always be called, also after an error. */
  end(): void
}

type Waiter = () => void

/** Waiting pieces of one owner. */
interface Line {
  /** In order of continuation. The piece served last comes first, so that few are half done at a time. */
  begun: Waiter[]
  begunTurns: number
  /** Begun pieces that let others go first, in the same order. */
  yielding: Waiter[]
  fresh: Waiter[]
  /** Begun and fresh pieces alternate, so that long work does not delay short work of the same owner. */
  isFreshNext: boolean
}

/**
 * Schedules slices of work over turns of the event loop, about one slice per turn. Owners alternate, so many pieces of
 * one owner delay another owner no longer than a single piece does.
 */
export class WorkLane {
  /** Waiting pieces by owner, in the order in which owners are served. */
  readonly #waiting = new Map<string, Line>()
  readonly #inFlight = new Map<string, number>()
  #total = 0
  #fresh = 0
  /** Units spent in this turn of the event loop. */
  #spentNow = 0
  #urgent = 0
  #isScheduled = false

  /** Number of pieces that have a place. */
  get inFlight(): number {
    return this.#total
  }

  open(owner: string, { max, isAbandoned = () => false }: PieceOptions): Piece {
    const budgets: WorkBudget[] = []
    const spent = () => budgets.reduce((total, budget) => total + budget.spent, 0)
    let hasPlace = false
    let hasBegun = false
    let isYielding = false
    const assertAwaited = () => {
      if (isAbandoned()) throw new AppError('overloaded', 'The caller has disconnected.')
    }
    const nextTurn = async () => {
      if (!hasPlace) {
        this.#enter(owner, max)
        hasPlace = true
      }
      await this.#turnOf(owner, hasBegun, isYielding)
      assertAwaited()
    }
    return {
      budget(units) {
        const budget = new WorkBudget(units)
        budgets.push(budget)
        return budget
      },
      nextTurn,
      inTurns: async (work) => {
        for (;;) {
          if (this.#spentNow >= sliceUnits) {
            if (hasPlace || spent() >= sliceUnits) await nextTurn()
            else await this.#waitShort(owner).then(assertAwaited)
          }
          hasBegun = true
          const before = spent()
          const step = work.next()
          this.#spend(spent() - before)
          if (step.done === true) return step.value
          await nextTurn()
        }
      },
      yieldToOthers: () => {
        isYielding = true
      },
      spent,
      end: () => {
        if (hasPlace) this.#leave(owner)
        hasPlace = false
      },
    }
  }

  /** Slows down other work while `urgent` runs, such as a kill, which needs several event loop turns itself. */
  async aheadOfWork<Result>(urgent: () => Promise<Result>): Promise<Result> {
    this.#urgent += 1
    try {
      return await urgent()
    } finally {
      this.#urgent -= 1
    }
  }

  #enter(owner: string, max: number): void {
    const own = this.#inFlight.get(owner) ?? 0
    // The first piece of an owner always gets a place, so that other owners cannot occupy all of them.
    if (own >= max || (own > 0 && max !== Infinity && this.#total >= maxPieces)) throw refusal()
    this.#inFlight.set(owner, own + 1)
    this.#total += 1
  }

  #leave(owner: string): void {
    const left = this.#inFlight.get(owner)! - 1
    if (left > 0) this.#inFlight.set(owner, left)
    else this.#inFlight.delete(owner)
    this.#total -= 1
  }

  /** Waits for a turn of a piece that has not used a slice. It needs no place yet, because most pieces need no more. */
  async #waitShort(owner: string): Promise<void> {
    const own = this.#waiting.get(owner)?.fresh.length ?? 0
    if (own >= maxWaiting.ofOwner || (own > 0 && this.#fresh >= maxWaiting.inAll)) throw refusal()
    this.#fresh += 1
    await new Promise<void>((resolve) => this.#line(owner).fresh.push(resolve))
    this.#fresh -= 1
  }

  #turnOf(owner: string, hasBegun: boolean, isYielding: boolean): Promise<void> {
    return new Promise((resolve) => {
      const { begun, yielding } = this.#line(owner)
      const waiters = isYielding ? yielding : begun
      if (hasBegun) waiters.unshift(resolve)
      else waiters.push(resolve)
    })
  }

  #line(owner: string): Line {
    let line = this.#waiting.get(owner)
    if (!line) {
      line = { begun: [], begunTurns: 0, yielding: [], fresh: [], isFreshNext: true }
      this.#waiting.set(owner, line)
    }
    this.#schedule()
    return line
  }

  #spend(units: number): void {
    this.#spentNow += units
    if (this.#spentNow >= sliceUnits) this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    const turn = () => {
      this.#isScheduled = false
      this.#spentNow = 0
      this.#giveTurn()
      if (this.#waiting.size > 0) this.#schedule()
    }
    if (this.#urgent > 0) setTimeout(turn, urgentPauseMs)
    else setImmediate(turn)
  }

  #giveTurn(): void {
    const first = this.#waiting.entries().next().value
    if (!first) return
    const [owner, line] = first
    this.#waiting.delete(owner)
    const hasBegun = line.begun.length + line.yielding.length > 0
    const isFresh = !hasBegun || (line.isFreshNext && line.fresh.length > 0)
    line.isFreshNext = !isFresh
    const resolve = isFresh ? line.fresh.shift()! : nextBegun(line)
    if (line.begun.length + line.yielding.length + line.fresh.length > 0) this.#waiting.set(owner, line)
    resolve()
  }
}

function nextBegun(line: Line): Waiter {
  const { begun, yielding } = line
  line.begunTurns += 1
  const isLongest = line.begunTurns % longestEvery === 0
  const waiters = begun.length === 0 || (isLongest && yielding.length > 0) ? yielding : begun
  return (isLongest ? waiters.pop() : waiters.shift())!
}

const refusal = () =>
  new AppError('overloaded', 'Too much work of this kind is in progress; retry in a moment.', retryAfterSeconds)

/** The only lane of this process. */
export const workLane = new WorkLane()
