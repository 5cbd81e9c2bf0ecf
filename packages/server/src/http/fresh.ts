import { AppError } from '../errors.ts'
import type { Principal } from './auth.ts'

/** How long a person need not confirm again. An open browser on a desk is used by others later than that. */
const freshMs = 5 * 60_000

/**
 * Asserts that a person, or a local admin with a passkey, proved a moment ago who they are. Other keys have nothing to
 * confirm. Never asked for a suspension: seconds count. Throws AppError `fresh_confirmation_required`.
 */
export function assertFresh(
  { person, confirmsByPasskey, authenticatedAt }: Pick<Principal, 'person' | 'confirmsByPasskey' | 'authenticatedAt'>,
  now: number,
): void {
  if (!person && !confirmsByPasskey) return
  if (authenticatedAt !== undefined && now - authenticatedAt <= freshMs) return
  throw new AppError(
    'fresh_confirmation_required',
    person
      ? 'Confirm that it is you: sign in again at the provider, at /auth/login?confirm=true, and repeat this within 5 minutes.'
      : 'Confirm that it is you: by a passkey at /auth/login?confirm=true, or sign in again with the local admin key, and repeat this within 5 minutes.',
  )
}
