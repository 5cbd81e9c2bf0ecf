import { hasWildcard, literalLength, matchesNames } from './path-pattern.ts'

/** Globs of one question that are compared with decoys; each costs a pass over them. */
const MAX_QUERY_GLOBS = 16

/** Literal characters that make a glob worth trying; a home folder counts for two. `~/.ssh/*` is, `/etc/*` is not. */
const MIN_LITERAL = 6

/**
 * The globs among the forms of a question, as lists of names, the most telling first. Agents write `~/.aws/cred*` or
 * `~/.a*s/c*s` where a filter knows the plain path; a match is approximate, and everyday globs (`*`, `src/*`,
 * `*.json`) are left out. `[...]` counts as one character of any kind.
 */
export function queryGlobs(forms: readonly string[]): string[][] {
  return forms
    .map((form) => form.replace(/\[[^\]/]+\]/g, '?').split('/'))
    .filter((names) => names.some(hasWildcard) && isTelling(names))
    .sort((one, other) => weight(other) - weight(one))
    .slice(0, MAX_QUERY_GLOBS)
}

function weight(names: readonly string[]): number {
  const isHome = names[0]!.startsWith('~')
  return names.slice(isHome ? 1 : 0).reduce((sum, name) => sum + literalLength(name), isHome ? 2 : 0)
}

function isTelling(names: readonly string[]): boolean {
  const isEndingAlone = names.length === 1 && /^[*?]/.test(names[0]!)
  return weight(names) >= MIN_LITERAL && !isEndingAlone
}

/** Whether the glob covers a decoy, given by its `decoyPathKeys`. */
export function globCovers(glob: readonly string[], decoyKeys: readonly string[]): boolean {
  return decoyKeys.some((key) => {
    const names = key.split('/')
    if (names[0] !== '**') return matchesNames(glob, names)
    const wanted = names.slice(1)
    const tail = glob.slice(-wanted.length)
    return glob.length >= wanted.length && !tail.includes('**') && isTelling(tail) && matchesNames(tail, wanted)
  })
}
