import { searchParams, text } from '../data/search-params.ts'

export const approvalsSearch = searchParams({
  /** Only requests of this agent. */
  agent: text,
})
