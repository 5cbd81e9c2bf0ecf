import { oneOf, searchParams, text } from '../data/search-params.ts'

export const agentSearch = searchParams({
  /** Length of the timeline. */
  hours: oneOf([1, 6, 24]),
  /** The baseline that is open. */
  metric: text,
})
