import { ruleModes } from '@wardline/contract'
import { firingDays } from '../data/rules.ts'
import { number, oneOf, type SearchOf, searchParams, text } from '../data/search-params.ts'

export const rulesSearch = searchParams({ q: text, show: oneOf(ruleModes) })
export type RulesSearch = SearchOf<typeof rulesSearch>

export const ruleSearch = searchParams({
  days: oneOf(firingDays),
  /** An earlier version whose text is shown. */
  version: number,
})
