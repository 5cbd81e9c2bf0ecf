import { flag, oneOf, type SearchOf, searchParams, text } from '../data/search-params.ts'

export const keySearch = searchParams({
  q: text,
  show: oneOf(['ended']),
  /** The dialog for a new key is open. */
  create: flag,
})
export type KeySearch = SearchOf<typeof keySearch>
