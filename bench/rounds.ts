import { setTimeout as sleep } from 'node:timers/promises'
import { startHelper } from './helper.ts'
import type { LoadResult, LoadTask } from './load.ts'
import type { Side } from './report.ts'
import { median } from './statistics.ts'

const pauseMs = 150
const warmSeconds = 1
const pause = () => sleep(pauseMs)

/**
 * Measures two sides in turn, `rounds` times, with the other one first in every second round: a machine that gets
 * slower or faster meanwhile, or a disk that still works off the previous round, weighs on both alike. `rest` is waited for
 * before each measurement.
 */
export async function pairedRounds<A, B>(
  rounds: number,
  measureA: () => Promise<A>,
  measureB: () => Promise<B>,
  rest: () => Promise<void> = pause,
): Promise<{ a: A; b: B }[]> {
  async function rested<T>(measure: () => Promise<T>): Promise<T> {
    await rest()
    return measure()
  }
  const pairs: { a: A; b: B }[] = []
  for (let round = 0; round < rounds; round++) {
    if (round % 2 === 0) {
      const a = await rested(measureA)
      pairs.push({ a, b: await rested(measureB) })
    } else {
      const b = await rested(measureB)
      pairs.push({ a: await rested(measureA), b })
    }
  }
  return pairs
}

/** The load generator, in a separate process. */
export function startGenerator() {
  return startHelper<LoadTask, LoadResult>('./load.ts')
}

/** Results of two loads, round by round, and whatever went wrong on either side, the unmeasured warm-up included. */
type LoadPairs = { a: LoadResult[]; b: LoadResult[]; faults: string[] }

/** One unmeasured run of each load, until its code is compiled, then paired rounds with one and the same generator. */
export async function pairedLoads(
  rounds: number,
  a: LoadTask & { name: string },
  b: LoadTask & { name: string },
  rest?: () => Promise<void>,
): Promise<LoadPairs> {
  const generator = startGenerator()
  const warmA = await generator.ask({ ...a, seconds: warmSeconds })
  const warmB = await generator.ask({ ...b, seconds: warmSeconds })
  const pairs = await pairedRounds(
    rounds,
    () => generator.ask(a),
    () => generator.ask(b),
    rest,
  )
  generator.stop()
  const resultsA = pairs.map((pair) => pair.a)
  const resultsB = pairs.map((pair) => pair.b)
  return {
    a: resultsA,
    b: resultsB,
    faults: [...faultsOf(a.name, [warmA, ...resultsA]), ...faultsOf(b.name, [warmB, ...resultsB])],
  }
}

/** The ratio a / b of one measure, round by round. */
export function ratios(pairs: LoadPairs, measure: (result: LoadResult) => number): number[] {
  return pairs.a.map((result, round) => measure(result) / measure(pairs.b[round]!))
}

/** Median rate and latencies over the rounds of one side. */
export function sideOf(name: string, results: readonly LoadResult[]): Side {
  const middle = (measure: (result: LoadResult) => number) => median(results.map(measure))
  return {
    name,
    perSecond: middle((result) => result.perSecond),
    meanMs: middle((result) => result.meanMs),
    p50Ms: middle((result) => result.p50Ms),
    p99Ms: middle((result) => result.p99Ms),
  }
}

/** A note when the generator had no core to spare: then the bare server could do more and the ratio flatters. */
export function generatorNotes(bare: readonly LoadResult[]): string[] {
  const cpu = median(bare.map((result) => result.generatorCpu))
  return [`the generator used ${Math.round(cpu * 100)} % of a core against the bare server`]
}

/** Everything unexpected in some runs against one side, each kind with its count. */
export function faultsOf(name: string, results: readonly LoadResult[]): string[] {
  const counts = new Map<string, number>()
  for (const [fault, count] of results.flatMap((result) => Object.entries(result.faults))) {
    counts.set(fault, (counts.get(fault) ?? 0) + count)
  }
  return [...counts].map(([fault, count]) => `${name}: ${count} × ${fault}`)
}
