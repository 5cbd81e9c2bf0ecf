import { listLimits } from '@wardline/contract'
import { escapeWildcards } from '@wardline/text'
import type { Budget } from './budget.ts'
import { shown } from './fault.ts'

// Names of lists between percent signs, which the modifier `expand` replaces by the entries.

/** Entries of lists by name. */
export interface RuleLists {
  get(name: string): readonly string[] | undefined
}

export const noLists: RuleLists = new Map<string, readonly string[]>()
/** Takes every list for an empty one: for texts that are read and do not run. */
export const anyLists: RuleLists = { get: () => [] }

/** Rules of others write names such as `%Admins_Workstations%`: case does not count. */
const placeholder = /%([A-Za-z0-9_-]{1,64})%/g
const listOf = (name: string): string => name.toLowerCase()

const namesIn = (value: unknown): string[] =>
  typeof value === 'string' ? [...value.matchAll(placeholder)].map(([, name]) => listOf(name!)) : []

export const hasPlaceholder = (value: unknown): boolean => namesIn(value).length > 0

/** Returns the names of the lists that selections use, sorted. */
export function listsIn(selections: unknown): string[] {
  if (Array.isArray(selections)) return sorted(selections.flatMap(listsIn))
  if (typeof selections !== 'object' || selections === null) return []
  return sorted(
    Object.entries(selections).flatMap(([key, value]) =>
      key.split('|').slice(1).includes('expand') ? [value].flat().flatMap(namesIn) : listsIn(value),
    ),
  )
}

const sorted = (names: readonly string[]): string[] => [...new Set(names)].toSorted()

/** A part of a value must not escape what follows it: `\` before the entry `*` would make that a wildcard. */
const closed = (part: string): string => part.replace(/\\[*?\\]|\\$/g, (sign) => (sign === '\\' ? '\\\\' : sign))

/**
 * Returns the values that a value with names of lists stands for, or why there are none. With `hasWildcards` those of the
 * value stay, and those of entries are escaped.
 */
export function expandValue(
  value: unknown,
  { lists, budget }: { lists: RuleLists; budget: Budget },
  hasWildcards: boolean,
): unknown[] | string {
  if (typeof value !== 'string' || !hasPlaceholder(value)) return [value]
  // Texts at even places, names between them.
  const parts = value.split(placeholder)
  const choices: (readonly string[])[] = []
  for (const [index, part] of parts.entries()) {
    if (index % 2 === 0) {
      choices.push([hasWildcards ? closed(part) : part])
      continue
    }
    const name = listOf(part)
    const entries = lists.get(name)
    if (entries === undefined) {
      return `There is no list ${shown(name)}: \`wardline lists create ${name}\` creates it; for rules in files, \`--list ${name}=<file>\` names a file of its entries.`
    }
    choices.push(hasWildcards ? entries.map(escapeWildcards) : entries)
  }
  const count = choices.reduce((product, { length }) => product * length, 1)
  if (budget.exceedsEntries(count)) {
    return `The lists of a rule have at most ${listLimits.expanded} entries, each use counted.`
  }
  return choices.reduce<string[]>((found, choice) => found.flatMap((text) => choice.map((entry) => text + entry)), [''])
}
