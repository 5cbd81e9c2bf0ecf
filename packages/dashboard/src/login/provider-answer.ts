import { signInPaths } from '@wardline/contract'

/**
 * The query with which the provider returned the browser. It is taken out of the address before anything else runs, so
 * that the history keeps no code, and because the router would write it in another form.
 */
let answer = ''

if (location.pathname === signInPaths.callback) {
  answer = location.search.slice(1)
  history.replaceState(history.state, '', location.pathname)
}

/** Returns the answer of the provider, once; empty without one. */
export function takeAnswer(): string {
  const taken = answer
  answer = ''
  return taken
}
