import { policyModes } from '@wardline/contract'
import { number, oneOf, searchParams, text } from '../data/search-params.ts'

export const policiesSearch = searchParams({ q: text, show: oneOf(policyModes) })

export const policySearch = searchParams({
  /** An earlier version whose text is shown. */
  version: number,
})
