import type { Slices, WorkBudget } from '../../work-turns.ts'
import { compilePathPattern, hasWildcard, matchesNames } from './path-pattern.ts'

/** Length of the character sequences by which names with wildcards are indexed. */
const gramLength = 3
/** Fixed cost of comparing a path with a pattern, in addition to its length. */
const unitsOfComparison = 100

const unitsOfPattern = 20_000

interface Alternative {
  names: string[]
  /** The patterns with this alternative; short alternatives belong to many patterns. */
  patterns: string[]
}

/**
 * Index of decoy patterns, each filed under the rarest mark that a matching path must contain: a whole name, or three
 * consecutive characters. A path is compared with the patterns filed under its own names, not with all.
 */
export class PatternIndex {
  readonly #filed = new Map<string, Alternative[]>()
  /** Alternatives without a literal mark, compared with every path. */
  readonly #unfiled: Alternative[] = []

  /** Indexes each different pattern once. */
  static *build(patterns: Iterable<string>, budget: WorkBudget): Slices<PatternIndex> {
    const index = new PatternIndex()
    const alternatives = new Map<string, { alternative: Alternative; marks: string[] }>()
    const counts = new Map<string, number>()
    for (const pattern of patterns) {
      for (const names of compilePathPattern(pattern).alternatives) {
        const text = names.join('/')
        const known = alternatives.get(text)
        if (known) known.alternative.patterns.push(pattern)
        else {
          const marks = [...new Set(names.flatMap(marksOfPattern))]
          for (const mark of marks) counts.set(mark, (counts.get(mark) ?? 0) + 1)
          alternatives.set(text, { alternative: { names, patterns: [pattern] }, marks })
        }
      }
      budget.count(unitsOfPattern)
      if (budget.isSliceOver()) yield
    }
    for (const { alternative, marks } of alternatives.values()) {
      let rarest: string | undefined
      for (const mark of marks) if (rarest === undefined || counts.get(mark)! < counts.get(rarest)!) rarest = mark
      if (rarest === undefined) index.#unfiled.push(alternative)
      else {
        const filed = index.#filed.get(rarest)
        if (filed) filed.push(alternative)
        else index.#filed.set(rarest, [alternative])
      }
    }
    return index
  }

  /** Returns the patterns that match any of the forms, as far as the budget allows. */
  *find(forms: readonly string[], budget: WorkBudget): Slices<Set<string>> {
    const found = new Set<string>()
    if (this.#filed.size === 0 && this.#unfiled.length === 0) return found
    const byName = new Map<string, Alternative[]>()
    const byFolder = new Map<string, Alternative[]>()
    for (const form of forms) {
      if (!budget.take(unitsOfComparison + form.length)) break
      const cut = form.lastIndexOf('/')
      const folder = form.slice(0, Math.max(0, cut))
      // Most forms of a check are in few folders, so look up each folder once.
      if (!byFolder.has(folder)) byFolder.set(folder, this.#filedUnder(folder.split('/'), byName, budget))
      const candidates = new Set([
        ...this.#unfiled,
        ...byFolder.get(folder)!,
        ...this.#filedUnder([form.slice(cut + 1)], byName, budget),
      ])
      const names = candidates.size === 0 ? [] : form.split('/')
      for (const alternative of candidates) {
        if (!budget.take(unitsOfComparison + form.length * alternative.names.length)) return found
        if (matchesNames(alternative.names, names)) for (const pattern of alternative.patterns) found.add(pattern)
        if (budget.isSliceOver()) yield
      }
      if (budget.isSliceOver()) yield
    }
    return found
  }

  #filedUnder(names: readonly string[], byName: Map<string, Alternative[]>, budget: WorkBudget): Alternative[] {
    const filed = new Set<Alternative>()
    for (const name of names) {
      let known = byName.get(name)
      if (known === undefined) {
        budget.take(unitsOfComparison + name.length * 50)
        known = [wholeMark(name), ...grams(name)].flatMap((mark) => this.#filed.get(mark) ?? [])
        byName.set(name, known)
      }
      for (const alternative of known) filed.add(alternative)
    }
    budget.take(names.length * 10)
    return [...filed]
  }
}

const wholeMark = (name: string): string => `/${name}`

function marksOfPattern(name: string): string[] {
  // The root and homes occur in too many paths to be useful marks.
  if (name === '' || name.startsWith('~')) return []
  return hasWildcard(name) ? name.split(/[*?]/).flatMap(grams) : [wholeMark(name)]
}

function grams(text: string): string[] {
  return Array.from({ length: Math.max(0, text.length - gramLength + 1) }, (_, place) =>
    text.slice(place, place + gramLength),
  )
}
