import { oneOf, searchParams, text } from '../data/search-params.ts'

export const listsSearch = searchParams({ q: text, show: oneOf(['used', 'unused']) })

/** The filter of the entries. */
export const listSearch = searchParams({ q: text })
