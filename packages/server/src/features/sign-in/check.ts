import type { RoleMapping } from '@wardline/contract'
import { systemClock } from '../../clock.ts'
import type { Config } from '../../config/config.ts'
import { AppError } from '../../errors.ts'
import { randomSecret } from '../../ids.ts'
import { type Described, describe, type Granted, refusalOf, roleOf } from '../people/roles.ts'
import {
  type Answer,
  type Attempt,
  Provider,
  type ProviderSettings,
  providerSettings,
  Refusal,
  toleranceSeconds,
} from './provider.ts'

/** What a person may do, and why. */
export interface Explained {
  described: Described
  granted: Granted | undefined
  /** Why they may do nothing. */
  refusal: string | undefined
}

interface Finished extends Explained {
  /** What a refresh says. */
  refresh: 'none' | 'no groups' | 'groups'
  /** Whether the provider proved that it authenticated the person for this sign-in. */
  confirms: 'yes' | 'not again' | 'no time'
}

function explain(
  mappings: readonly RoleMapping[],
  sources: Answer['sources'],
  { groupsClaim }: ProviderSettings,
): Explained {
  const described = describe(sources, groupsClaim)
  const granted = roleOf(mappings, described)
  return { described, granted, refusal: granted ? undefined : refusalOf(mappings, described, groupsClaim) }
}

/** Throws AppError `invalid`, without quoting the token. */
function claimsOf(token: string): Record<string, unknown> {
  try {
    const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'))
    if (typeof claims === 'object' && claims !== null && !Array.isArray(claims)) return claims
  } catch {}
  throw new AppError('invalid', 'This is not a JWT with claims.')
}

/** Walks the steps of signing in outside of a service, before anything is switched on. Undefined without a provider. */
export function openSignInCheck(config: Config, mappings: readonly RoleMapping[]) {
  const settings = providerSettings(config)
  if (!settings) return undefined
  const provider = new Provider(settings, systemClock)
  const attempt: Attempt = { state: randomSecret(32), nonce: randomSecret(32), verifier: randomSecret(32) }
  let startedAt = systemClock.now()
  return {
    settings,
    /** Reads the discovery document. */
    discover: () => provider.metadata(),
    /** Whether the provider knows the client and its secret: only then it looks at a code, which is not valid. */
    async knowsClient(): Promise<string | undefined> {
      const query = new URLSearchParams({
        code: 'made-up-by-wardline-oidc-test',
        state: attempt.state,
        iss: settings.issuer,
      })
      try {
        await provider.finish(String(query), attempt)
      } catch (fault) {
        return fault instanceof Refusal && fault.reason === 'invalid_grant' ? undefined : (fault as AppError).message
      }
      return 'It accepts codes that it did not make.'
    },
    /** Returns the address to open in a browser. It asks to authenticate the person, as a confirmation does. */
    start() {
      startedAt = systemClock.now()
      return provider.start(attempt, 0)
    },
    /** Finishes with the address to which the provider returned the browser. */
    async finish(address: string): Promise<Finished> {
      const said = await provider.finish(new URL(address).search.slice(1), attempt)
      const { authenticatedAt } = said
      const isAgain = authenticatedAt !== undefined && authenticatedAt >= startedAt - toleranceSeconds * 1_000
      const confirms = isAgain ? 'yes' : authenticatedAt === undefined ? 'no time' : 'not again'
      const explained = { ...explain(mappings, said.sources, settings), confirms } as const
      if (said.refreshToken === undefined) return { ...explained, refresh: 'none' }
      const again = await provider.refresh(said.refreshToken, said.subject)
      const hasGroups =
        again.sources.length > 0 && explain(mappings, again.sources, settings).described.doubt !== 'missing'
      return { ...explained, refresh: hasGroups ? 'groups' : 'no groups' }
    },
    /** Explains the claims of a token, which is not verified. */
    explainToken: (token: string): Explained => explain(mappings, [claimsOf(token)], settings),
  }
}
