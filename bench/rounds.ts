import { setTimeout as sleep } from 'node:timers/promises'
import { startHelper } from './helper.ts'
import type { LoadResult, LoadTask } from './load.ts'
import type { Side } from './report.ts'
import { median } from './statistics.ts'

const pauseMs = 150
const warmSeconds = 1
const pause = () => sleep(pauseMs)

/**
 * Measures two sides in turn, `rounds` times, and changes their order in every second round, so that a machine that
 * changes its speed, or a disk that still writes data of the previous round, affects both equally. Waits for `rest`
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

/** Results of two loads by round, and the faults of both sides, including the warm-up. */
type LoadPairs = { a: LoadResult[]; b: LoadResult[]; faults: string[] }

/** Runs each load once as a warm-up, then in paired rounds with the same generator. */
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

/** Returns the ratio a / b of a measure by round. */
export function ratios(pairs: LoadPairs, measure: (result: LoadResult) => number): number[] {
  return pairs.a.map((result, round) => measure(result) / measure(pairs.b[round]!))
}

/** Returns the median rate and latencies over the rounds of one side. */
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

/** Returns a note if the generator used a whole core: then the bare server could do more, and the ratio is too high. */
export function generatorNotes(bare: readonly LoadResult[]): string[] {
  const cpu = median(bare.map((result) => result.generatorCpu))
  return [`the generator used ${Math.round(cpu * 100)} % of a core against the bare server`]
}

/** Returns the faults of runs against one side, with their counts. */
export function faultsOf(name: string, results: readonly LoadResult[]): string[] {
  const counts = new Map<string, number>()
  for (const [fault, count] of results.flatMap((result) => Object.entries(result.faults))) {
    counts.set(fault, (counts.get(fault) ?? 0) + count)
  }
  return [...counts].map(([fault, count]) => `${name}: ${count} × ${fault}`)
}
