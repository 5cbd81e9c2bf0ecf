import type { Slices, WorkBudget } from '../../work-turns.ts'
import { hasWildcard, literalLength, matchesNames } from './path-pattern.ts'

/** Globs of one question that are compared with decoys; each costs a pass over them. */
const maxQueryGlobs = 16

/** Literal characters that make a glob worth trying; a home folder counts for two. `~/.ssh/*` is, `/etc/*` is not. */
const minLiteral = 6
/** In a hidden folder of a home, where people seldom look for files by glob. `~/.a*\/c*` is, `~/.a*\/*` is not. */
const minHiddenLiteral = 5

/**
 * The globs among the forms of a question, as lists of names, the most specific first. Agents write `~/.aws/cred*` or
 * `~/.a*s/c*s` where a filter knows the plain path; a match is approximate, and everyday globs (`*`, `src/*`, `*.json`)
 * are left out. `[...]` counts as one character of any kind.
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
