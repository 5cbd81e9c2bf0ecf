/** Returns a generator of numbers in [0, 1) that repeats for the same seed (mulberry32). */
export function seededDraws(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Random choices that repeat for the same seed. */
export function seededChoices(seed: number) {
  const draw = seededDraws(seed)
  return {
    chance: (probability: number) => draw() < probability,
    between: (low: number, high: number) => low + Math.floor(draw() * (high - low + 1)),
    pick: <Item>(items: readonly Item[]): Item => items[Math.floor(draw() * items.length)]!,
  }
}
