import { oneOf, type SearchOf, searchParams, text } from '../data/search-params.ts'

const decoyFilters = ['issued', 'planted', 'tripped', 'retired', 'keys', 'paths'] as const
export type DecoyFilter = (typeof decoyFilters)[number]

export const decoySearch = searchParams({
  q: text,
  show: oneOf(decoyFilters),
  /** The id of the decoy in the drawer. */
  open: text,
  /** The preset in the dialog, or `new`. */
  plant: text,
  /** The instance to plant for. */
  agent: text,
})
export type DecoySearch = SearchOf<typeof decoySearch>
