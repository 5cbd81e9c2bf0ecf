function distance(left: string, right: string): number {
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (let row = 1; row <= left.length; row++) {
    const current = [row]
    for (let column = 1; column <= right.length; column++) {
      const substitution = previous[column - 1]! + (left[row - 1] === right[column - 1] ? 0 : 1)
      current.push(Math.min(substitution, previous[column]! + 1, current[column - 1]! + 1))
    }
    previous = current
  }
  return previous[right.length]!
}

/** Variables that the command line reads as a client of a service. They are not settings of the service. */
const clientNames = [
  'WARDLINE_URL',
  'WARDLINE_KEY',
  'WARDLINE_KEY_FILE',
  'WARDLINE_PROFILE',
  'WARDLINE_INSTANCE_ID',
  'WARDLINE_FAIL_MODE',
  'WARDLINE_PUBLIC_KEY',
]

/** Returns a sentence for each variable that looks like a setting and is none of `known`. */
export function unknownNames(env: NodeJS.ProcessEnv, known: readonly string[]): string[] {
  const faults: string[] = []
  for (const name of Object.keys(env)) {
    if (!name.startsWith('WARDLINE_') || known.includes(name) || clientNames.includes(name)) continue
    const nearest = known.toSorted((a, b) => distance(name, a) - distance(name, b))[0]!
    faults.push(`${name} is not a setting; did you mean ${nearest}?`)
  }
  return faults
}
