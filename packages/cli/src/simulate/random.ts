/** Returns a number from 0 (inclusive) to 1 (exclusive). */
export type Random = () => number

/** The mulberry32 generator. It has 32 bits of state, so a single seed reproduces a run. Not for secrets. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

export function between(random: Random, min: number, max: number): number {
  return min + random() * (max - min)
}

export function pick<Value>(random: Random, values: readonly Value[]): Value {
  return values[Math.floor(random() * values.length)]!
}

/** Returns the values in random order (Fisher–Yates). */
export function shuffled<Value>(random: Random, values: readonly Value[]): Value[] {
  const result = [...values]
  for (let last = result.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1))
    const moved = result[last]!
    result[last] = result[other]!
    result[other] = moved
  }
  return result
}
