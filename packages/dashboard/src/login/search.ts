import { flag, oneOf, searchParams, text } from '../data/search-params.ts'

/** The page to open after signing in: only a path of this service, so that a link cannot lead to another site. */
const to = (value: unknown) => {
  const path = text(value)
  return path !== undefined && /^\/(?![/\\])/.test(path) ? path : undefined
}

export const loginSearch = searchParams({
  to,
  /** Whether a signed-in person proves again who they are. */
  confirm: flag,
  /** The form for a key is open. */
  by: oneOf(['key']),
})

export const commandLoginSearch = searchParams({
  /** The command line has its session. */
  done: flag,
  /** The person refused it. */
  refused: flag,
})
