import { AppError } from '../errors.ts'
import type { Principal } from './auth.ts'

/** How long a person need not confirm again. An open browser on a desk is used by others later than that. */
const freshMs = 5 * 60_000

/**
 * Asserts that a person proved to their provider a moment ago who they are. Keys have nothing to confirm. Never asked
 * for a suspension: seconds count. Throws AppError `fresh_confirmation_required`.
 */
export function assertFresh(
  { person, authenticatedAt }: Pick<Principal, 'person' | 'authenticatedAt'>,
  now: number,
): void {
  if (!person || (authenticatedAt !== undefined && now - authenticatedAt <= freshMs)) return
  throw new AppError(
    'fresh_confirmation_required',
    'Confirm that it is you: sign in again at the provider, at /auth/login?confirm=true, and repeat this within 5 minutes.',
  )
}
