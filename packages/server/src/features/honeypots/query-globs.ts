import type { Slices, WorkBudget } from '../../work-turns.ts'
import type { PathForms } from './path-forms.ts'
import { hasWildcard, literalLength, matchesName, matchesNames } from './path-pattern.ts'

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
 * Minimum in what the input adds to the folder that the agent works in, whose own name tells nothing: `cred*` qualifies,
 * a multiplication such as `w*h` does not.
 */
const minWritten = 3
/** Minimum if that is a hidden name, which begins with a dot. `.e*` qualifies, `.*` does not. */
const minWrittenHidden = 2

/**
 * Returns the globs among the forms of a check, as lists of names, most specific first. An agent may write
 * `~/.aws/cred*` or `~/.a*s/c*s` to bypass a filter for the plain path. Matches are approximate, and everyday globs
 * (`*`, `src/*`, `*.json`) are skipped in whatever folder the agent works. `[...]` counts as one character of any kind.
 */
export function* queryGlobs(forms: PathForms, budget: WorkBudget): Slices<string[][]> {
  const globs: { names: string[]; weight: number }[] = []
  for (const [form, count] of forms) {
    if (!/[*?[]/.test(form)) continue
    if (!budget.take(form.length * 30)) break
    const names = form.replace(/\[[^\]/]+\]/g, '?').split('/')
    const written = names.slice(Math.max(0, names.length - count))
    if (written.some(hasWildcard) && isSpecific(names) && (count === Infinity || isTelling(written)))
      globs.push({ names, weight: weight(names) })
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

/** Whether names below a folder are more than an everyday glob there. */
function isTelling(written: readonly string[]): boolean {
  const literal = weight(written)
  if (/^[*?]/.test(written.at(-1)!)) return written.length > 1 && literal >= minLiteral
  return literal >= (written.some((name) => name.startsWith('.')) ? minWrittenHidden : minWritten)
}

/** Whether the glob covers a decoy, given by its `decoyPathKeys` as names. */
export function globCovers(glob: readonly string[], decoyKeys: readonly (readonly string[])[]): boolean {
  return decoyKeys.some((names) => {
    if (names[0] !== '**') return expandsTo(glob, names)
    const wanted = names.slice(1)
    const tail = glob.slice(-wanted.length)
    return glob.length >= wanted.length && !tail.includes('**') && isSpecific(tail) && expandsTo(tail, wanted)
  })
}

/** As in shells, a wildcard at the start of a name covers no hidden one, and `**` at the end no hidden file. */
function expandsTo(glob: readonly string[], names: readonly string[]): boolean {
  if (glob.at(-1) === '**' && names.at(-1)!.startsWith('.')) return false
  return matchesNames(
    glob,
    names,
    (pattern, name) => !(name.startsWith('.') && /^[*?]/.test(pattern)) && matchesName(pattern, name),
  )
}
