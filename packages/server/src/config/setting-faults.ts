import { WebhookSecret } from '@wardline/contract'
import { patternRule } from '../validation.ts'

// Checks of settings that a pattern cannot express. Each returns the violated rule as the rest of a sentence that
// starts with the setting's name.

/** Checks the rules that apply to every URL setting. */
export function urlFault(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  // URL parsers silently drop line breaks, so the URL in use would differ from the one that people read.
  if (!url?.hostname || /[\s\p{Cc}]/u.test(text)) {
    const missing = text.includes('://') ? '' : ', beginning with https:// or another scheme'
    return `must be a URL with a host name and without spaces${missing}`
  }
  try {
    decodeURIComponent(url.username + url.password)
  } catch {
    return 'must be a URL in whose user and password each % is written as %25'
  }
  // The HTTP client refuses URLs with a login on each attempt, because logins in URLs leak into logs.
  const hasLogin = url.username !== '' || url.password !== ''
  if (hasLogin && /^https?:$/.test(url.protocol)) return 'must not contain a user or a password'
  return undefined
}

/** Checks for exact base64. The pattern alone accepts texts that programs could decode to different secrets. */
export function webhookSecretFault(secret: string): string | undefined {
  const text = secret.slice('whsec_'.length)
  const bytes = Buffer.from(text, 'base64')
  const isExact = [bytes.toString('base64'), bytes.toString('base64').replace(/=+$/, '')].includes(text)
  return isExact && bytes.length >= 24 && bytes.length <= 64 ? undefined : patternRule(WebhookSecret)
}
