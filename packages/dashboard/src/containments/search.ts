import { searchParams, text } from '../data/search-params.ts'

export const containmentsSearch = searchParams({
  /** The drill whose report is open. */
  drill: text,
})
