import { commandLoginLimits } from '@wardline/contract'
import { minuteMs } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import { accessPrefix } from '../../http/auth.ts'
import { seal, unseal } from '../../sealed.ts'
import type { SessionRow } from './session-statements.ts'

/** What the encrypted text is of. */
const sealedFor = 'an access token'

interface Access {
  tokenHash: string
  expiresAt: number
}

/** Returns what a command line sends instead of a key. Nothing is stored: it names the session, and proves it for a while. */
export function grantAccess(
  { clock, secrets }: Pick<Deps, 'clock' | 'secrets'>,
  { token_hash, expires_at }: Pick<SessionRow, 'token_hash' | 'expires_at'>,
): { access: string; expiresAt: number } {
  const expiresAt = Math.min(clock.now() + commandLoginLimits.accessMinutes * minuteMs, expires_at)
  const content = { tokenHash: token_hash, expiresAt } satisfies Access
  return { access: accessPrefix + seal(sealedFor, content, secrets.signInKey), expiresAt }
}

/** Returns the content of an access token, which may have expired; undefined if this deployment did not grant it. */
export function openAccess({ secrets }: Pick<Deps, 'secrets'>, presented: string): Access | undefined {
  try {
    return unseal<Access>(sealedFor, presented.slice(accessPrefix.length), secrets.signInKey)
  } catch {
    return undefined
  }
}
