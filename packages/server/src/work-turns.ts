import { AppError } from './errors.ts'

/** Work that can be left off wherever it yields, and gone on with later. */
export type Slices<Result> = Generator<void, Result, void>

/** Units between two yields: about a millisecond, see `WorkBudget`. */
export const sliceUnits = 500_000

/**
 * Counted work: a unit is about what reading one character costs, one or two nanoseconds. Counting instead of measuring
 * the time lets the same input always yield the same answer, however busy the machine.
 */
export class WorkBudget {
  #left: number
  #sinceYield = 0
  #spent = 0
  #isExhausted = false

  constructor(units: number) {
    this.#left = units
  }

  /** Accounts for work that is about to be done. When it answers false, the work must be left out. */
  take(units: number): boolean {
    if (units > this.#left) this.#isExhausted = true
    if (this.#isExhausted) return false
    this.#left -= units
    this.count(units)
    return true
  }

  /** Accounts for work that was paid for otherwise, so that it yields as well. */
  count(units: number): void {
    this.#sinceYield += units
    this.#spent += units
  }

  /** Units of all the work that was done. */
  get spent(): number {
    return this.#spent
  }

  /** Something was left out because of a limit. */
  exhaust(): void {
    this.#isExhausted = true
  }

  /** Whether anything was left out. */
  get isExhausted(): boolean {
    return this.#isExhausted
  }

  /** Whether the work should yield now. Asking starts the next slice when it answers true. */
  isSliceOver(): boolean {
    if (this.#sinceYield < sliceUnits) return false
    this.#sinceYield = 0
    return true
  }
}

/** Begun pieces in all, of owners that have one already: each holds up to 64 KiB of text and what was made of it, or a batch. */
const maxPieces = 64
/** Pieces that wait for their first slice, for each owner and in all: each holds the body of a request. */
const maxWaiting = { ofOwner: 1_024, inAll: 8_192 }
const retryAfterSeconds = 1
/** Milliseconds between two turns while something urgent is under way; enough for work to go on under a flood of it. */
const urgentPauseMs = 10
/** Of the turns of an owner's begun pieces one in so many goes to the one that waits longest, or it might wait for ever. */
const longestEvery = 8

interface PieceOptions {
  /** Pieces of this owner that may be in their second slice or later at a time; more are refused. */
  max: number
  /** Whether the caller is gone: the work then ends at its next turn. */
  isAbandoned?: () => boolean
}

/** Work of one request, in as many parts as it takes. */
export interface Piece {
  /** A budget whose units count as spent by this piece. */
  budget(units: number): WorkBudget
  /** Resolves in a later turn of the event loop. Rejects with AppError `overloaded` when the work is refused or abandoned. */
  nextTurn(): Promise<void>
  /** Runs slices in this turn of the event loop while it has room for them, then in later ones: short work costs no turn. */
  inTurns<Result>(work: Slices<Result>): Promise<Result>
  /** Units that were spent until now. */
  spent(): number
  /** Gives back the place of the piece; to be called whatever happened. */
  end(): void
}

type Waiter = () => void

/** Pieces of one owner that wait for a turn. */
interface Line {
  /** In order of continuation: the one whose turn was last comes first, so that few are half done at a time. */
  begun: Waiter[]
  begunTurns: number
  fresh: Waiter[]
  /** Begun and fresh pieces take turns: short work is not kept waiting by long work of the same owner. */
  isFreshNext: boolean
}

/**
 * Gives turns of the event loop: each serves about one slice in all, and owners take them by turns, so that many
 * pieces of one hold up another no longer than one does.
 */
export class WorkLane {
  /** Who waits, by owner, in the order in which owners are served. */
  readonly #waiting = new Map<string, Line>()
  readonly #inFlight = new Map<string, number>()
  #total = 0
  #fresh = 0
  /** Units spent in this turn of the event loop. */
  #spentNow = 0
  #urgent = 0
  #isScheduled = false

  /** Pieces that have a place now. */
  get inFlight(): number {
    return this.#total
  }

  open(owner: string, { max, isAbandoned = () => false }: PieceOptions): Piece {
    const budgets: WorkBudget[] = []
    const spent = () => budgets.reduce((total, budget) => total + budget.spent, 0)
    let hasPlace = false
    let hasBegun = false
    const assertAwaited = () => {
      if (isAbandoned()) throw new AppError('overloaded', 'The caller has disconnected.')
    }
    const nextTurn = async () => {
      if (!hasPlace) {
        this.#enter(owner, max)
        hasPlace = true
      }
      await this.#turnOf(owner, hasBegun)
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
            if (hasBegun) await nextTurn()
            else await this.#firstTurn(owner).then(assertAwaited)
          }
          hasBegun = true
          const before = spent()
          const step = work.next()
          this.#spend(spent() - before)
          if (step.done === true) return step.value
          await nextTurn()
        }
      },
      spent,
      end: () => {
        if (hasPlace) this.#leave(owner)
        hasPlace = false
      },
    }
  }

  /** Runs what goes ahead of all work in turns, such as a kill: it takes several turns of the event loop itself. */
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
    // The first piece of an owner always finds a place: others cannot fill them all.
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

  /** A turn for a piece that has done nothing yet: it needs no place, most end within a slice. */
  async #firstTurn(owner: string): Promise<void> {
    const own = this.#waiting.get(owner)?.fresh.length ?? 0
    if (own >= maxWaiting.ofOwner || (own > 0 && this.#fresh >= maxWaiting.inAll)) throw refusal()
    this.#fresh += 1
    await new Promise<void>((resolve) => this.#line(owner).fresh.push(resolve))
    this.#fresh -= 1
  }

  #turnOf(owner: string, hasBegun: boolean): Promise<void> {
    return new Promise((resolve) => {
      const { begun } = this.#line(owner)
      if (hasBegun) begun.unshift(resolve)
      else begun.push(resolve)
    })
  }

  #line(owner: string): Line {
    let line = this.#waiting.get(owner)
    if (!line) {
      line = { begun: [], begunTurns: 0, fresh: [], isFreshNext: true }
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
    const isFresh = line.begun.length === 0 || (line.isFreshNext && line.fresh.length > 0)
    line.isFreshNext = !isFresh
    const resolve = isFresh ? line.fresh.shift()! : nextBegun(line)
    if (line.begun.length + line.fresh.length > 0) this.#waiting.set(owner, line)
    resolve()
  }
}

function nextBegun(line: Line): Waiter {
  line.begunTurns += 1
  return (line.begunTurns % longestEvery === 0 ? line.begun.pop() : line.begun.shift())!
}

const refusal = () =>
  new AppError('overloaded', 'Too much work of this kind is in progress; retry in a moment.', retryAfterSeconds)

/** The turns of this process. */
export const workLane = new WorkLane()
