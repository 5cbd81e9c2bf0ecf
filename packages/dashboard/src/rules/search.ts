import { ruleModes } from '@wardline/contract'
import { firingDays } from '../data/rules.ts'
import { number, oneOf, searchParams, text } from '../data/search-params.ts'

export const rulesSearch = searchParams({ q: text, show: oneOf(ruleModes) })

export const ruleSearch = searchParams({
  days: oneOf(firingDays),
  /** An earlier version whose text is shown. */
  version: number,
})

/** The event whose fields a new rule begins with. */
export const newRuleSearch = searchParams({ event: number })
