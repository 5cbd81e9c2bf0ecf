import { WebhookSecret } from '@wardline/contract'
import { patternRule } from './validation.ts'

// What a pattern cannot say of a setting. Each gives the rule that is broken, to be put behind the name of the setting.

/** What a URL must be, whatever it is for, before anything else is asked of it. */
export function urlFault(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  // Parsers drop line breaks silently: a URL is refused that reads otherwise than it is used.
  if (!url?.hostname || /[\s\p{Cc}]/u.test(text)) return 'must be a URL with a host name and without spaces'
  try {
    decodeURIComponent(url.username + url.password)
  } catch {
    return 'must be a URL in whose user and password each % is written as %25'
  }
  // The way out would refuse it at each try: such a login gets into logs on its way.
  const hasLogin = url.username !== '' || url.password !== ''
  if (hasLogin && /^https?:$/.test(url.protocol)) return 'must not contain a user or a password'
  return undefined
}

/** The pattern lets texts pass that are no base64: two programs could read two secrets out of such a one. */
export function webhookSecretFault(secret: string): string | undefined {
  const text = secret.slice('whsec_'.length)
  const bytes = Buffer.from(text, 'base64')
  const isExact = [bytes.toString('base64'), bytes.toString('base64').replace(/=+$/, '')].includes(text)
  return isExact && bytes.length >= 24 && bytes.length <= 64 ? undefined : patternRule(WebhookSecret)
}
