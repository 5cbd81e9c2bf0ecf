import { searchParams, text } from '../data/search-params.ts'

export const loginSearch = searchParams({
  /** The page to open after signing in: only a path of this service, so that a link cannot lead to another site. */
  to: (value) => {
    const to = text(value)
    return to !== undefined && /^\/(?![/\\])/.test(to) ? to : undefined
  },
})
