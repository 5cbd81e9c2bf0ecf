import { ruleLimits } from '@wardline/contract'
import { percentile } from '../../../percentile.ts'
import type { Mark } from './marks.ts'

const { figures: maxFigures } = ruleLimits
/** Bytes of the lists, and of a figure in them, which is kept twice. */
const listBytes = 400
const figureBytes = 40

export type FigureType = 'value_sum' | 'value_avg' | 'value_percentile'

/** The numbers of a window with their events, oldest first. */
export class Figures {
  readonly #marks: Mark[] = []
  readonly #values: number[] = []
  /** The same values, the lowest first; empty if no percentile is asked for. */
  readonly #sorted: number[] = []
  readonly #isSorted: boolean

  constructor(type: FigureType) {
    this.#isSorted = type === 'value_percentile'
  }

  get bytes(): number {
    return listBytes + this.#marks.length * figureBytes
  }

  get oldestSeq(): number | undefined {
    return this.#marks[0]?.[1]
  }

  get marks(): readonly Mark[] {
    return this.#marks
  }

  add(time: number, seq: number, value: number): void {
    this.#marks.push([time, seq])
    this.#values.push(value)
    if (this.#isSorted) this.#sorted.splice(this.#placeOf(value), 0, value)
  }

  /** Drops the figures before a time, and the oldest ones beyond the limit. */
  drop(before: number): void {
    let count = Math.max(0, this.#marks.length - maxFigures)
    while (count < this.#marks.length && this.#marks[count]![0] < before) count += 1
    this.#marks.splice(0, count)
    for (const value of this.#values.splice(0, count)) {
      if (this.#isSorted) this.#sorted.splice(this.#placeOf(value), 1)
    }
  }

  /** Added up again at each event: a sum that is carried on would depend on what is no longer in the window. */
  get #sum(): number {
    let sum = 0
    for (const value of this.#values) sum += value
    return sum
  }

  /** Returns the figure of the window, which is not empty. `share`: of value_percentile, from 0 to 1. */
  of(type: FigureType, share: number): number {
    switch (type) {
      case 'value_sum':
        return this.#sum
      case 'value_avg':
        return this.#sum / this.#values.length
      case 'value_percentile':
        return percentile(this.#sorted, share)!
    }
  }

  /** Returns where the value is among the sorted ones, or would be. */
  #placeOf(value: number): number {
    let [low, high] = [0, this.#sorted.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#sorted[middle]! < value) low = middle + 1
      else high = middle
    }
    return low
  }
}
