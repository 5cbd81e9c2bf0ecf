import type { Slices, WorkBudget } from '../../work-turns.ts'
import { hasWildcard, literalLength, matchesNames } from './path-pattern.ts'

/** Maximum number of globs per check that are compared with decoys; each costs a pass over them. */
const maxQueryGlobs = 16

/**
 * Minimum number of literal characters for a glob to be compared; a home folder counts as two. `~/.ssh/*` qualifies,
 * `/etc/*` does not.
 */
const minLiteral = 6
/** Minimum in a hidden folder of a home, where people seldom use globs. `~/.a*\/c*` qualifies, `~/.a*\/*` does not. */
const minHiddenLiteral = 5

/**
 * Returns the globs among the forms of a check, as lists of names, most specific first. An agent may write
 * `~/.aws/cred*` or `~/.a*s/c*s` to bypass a filter for the plain path. Matches are approximate, and everyday globs
 * (`*`, `src/*`, `*.json`) are skipped. `[...]` counts as one character of any kind.
 */
export function* queryGlobs(forms: readonly string[], budget: WorkBudget): Slices<string[][]> {
  const globs: { names: string[]; weight: number }[] = []
  for (const form of forms) {
    if (!/[*?[]/.test(form)) continue
    if (!budget.take(form.length * 30)) break
    const names = form.replace(/\[[^\]/]+\]/g, '?').split('/')
    if (names.some(hasWildcard) && isSpecific(names)) globs.push({ names, weight: weight(names) })
    if (budget.isSliceOver()) yield
  }
  return globs
    .sort((one, other) => other.weight - one.weight)
    .slice(0, maxQueryGlobs)
    .map(({ names }) => names)
}

function weight(names: readonly string[]): number {
  const isHome = names[0]!.startsWith('~')
  return names.slice(isHome ? 1 : 0).reduce((sum, name) => sum + literalLength(name), isHome ? 2 : 0)
}

function isSpecific(names: readonly string[]): boolean {
  const isEndingAlone = names.length === 1 && /^[*?]/.test(names[0]!)
  const isHidden = names[0]!.startsWith('~') && names.length > 2 && names[1]!.startsWith('.')
  return weight(names) >= (isHidden ? minHiddenLiteral : minLiteral) && !isEndingAlone
}

/** Whether the glob covers a decoy, given by its `decoyPathKeys` as names. */
export function globCovers(glob: readonly string[], decoyKeys: readonly (readonly string[])[]): boolean {
  return decoyKeys.some((names) => {
    if (names[0] !== '**') return matchesNames(glob, names)
    const wanted = names.slice(1)
    const tail = glob.slice(-wanted.length)
    return glob.length >= wanted.length && !tail.includes('**') && isSpecific(tail) && matchesNames(tail, wanted)
  })
}
