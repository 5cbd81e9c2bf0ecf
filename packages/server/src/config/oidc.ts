import { isLoopback } from '@wardline/text'
import { urlFault } from './setting-faults.ts'
import { refuse, setting, text } from './values.ts'

function issuer(value: string): string {
  const fault = urlFault(value)
  if (fault !== undefined) refuse(fault)
  const { protocol, hostname, search, hash } = new URL(value)
  const isEncrypted = protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname))
  return isEncrypted && search === '' && hash === '' ? value : refuse('must be https://, without ? and #')
}

/** The provider at which people sign in. */
export const oidcSettings = {
  oidcIssuer: setting({
    env: 'WARDLINE_OIDC_ISSUER',
    unset: undefined,
    meaning:
      'OpenID Connect provider at which [people sign in](../guide/people.md), as its discovery document names it, such as `https://login.example.com`. Default: none, everybody signs in with a key',
    parse: issuer,
  }),
  oidcClientId: setting({
    env: 'WARDLINE_OIDC_CLIENT_ID',
    unset: undefined,
    meaning: 'Id of this service at the provider',
    parse: text,
  }),
  oidcClientSecret: setting({
    env: 'WARDLINE_OIDC_CLIENT_SECRET',
    unset: undefined,
    meaning: 'Secret of this service at the provider',
    parse: text,
    secret: true,
  }),
  oidcScopes: setting({
    env: 'WARDLINE_OIDC_SCOPES',
    unset: 'openid profile email offline_access',
    meaning:
      'Scopes that are asked for. Without `offline_access` most providers give no refresh token, and sessions end after an hour; Google refuses it',
    parse: (value) => {
      const scopes = value.split(' ').filter((scope) => scope !== '')
      return scopes.includes('openid') ? scopes.join(' ') : refuse('must contain openid')
    },
  }),
  oidcGroupsClaim: setting({
    env: 'WARDLINE_OIDC_GROUPS_CLAIM',
    unset: 'groups',
    meaning: 'Claim with the groups of a person; with dots the path to it, such as `realm_access.roles`',
    parse: text,
  }),
  oidcRolesFile: setting({
    env: 'WARDLINE_OIDC_ROLES_FILE',
    unset: undefined,
    meaning:
      'YAML file of [which groups have which role](../guide/people.md#roles). Default: the table on the page People',
    parse: text,
  }),
  oidcName: setting({
    env: 'WARDLINE_OIDC_NAME',
    unset: undefined,
    meaning: 'Name of the provider on the sign-in page. Default: the host of the issuer',
    parse: text,
  }),
}

type OidcConfig = Partial<
  Record<
    'oidcIssuer' | 'oidcClientId' | 'oidcClientSecret' | 'oidcRolesFile' | 'oidcName' | 'publicUrl',
    string | undefined
  >
>

/** Returns which settings of the provider are missing or useless. */
export function incompleteOidc(config: OidcConfig): string[] {
  const { oidcIssuer, oidcClientId, oidcClientSecret, oidcRolesFile, oidcName, publicUrl } = config
  if (oidcIssuer === undefined) {
    const set = [
      ['WARDLINE_OIDC_CLIENT_ID', oidcClientId],
      ['WARDLINE_OIDC_CLIENT_SECRET', oidcClientSecret],
      ['WARDLINE_OIDC_ROLES_FILE', oidcRolesFile],
      ['WARDLINE_OIDC_NAME', oidcName],
    ].flatMap(([name, value]) => (value === undefined ? [] : [name]))
    return set.map((name) => `${name} needs WARDLINE_OIDC_ISSUER: set it to the address of the provider.`)
  }
  const faults: string[] = []
  if (oidcClientId === undefined)
    faults.push('WARDLINE_OIDC_ISSUER needs WARDLINE_OIDC_CLIENT_ID: set it to the id of this service there.')
  if (oidcClientSecret === undefined)
    faults.push('WARDLINE_OIDC_ISSUER needs WARDLINE_OIDC_CLIENT_SECRET: set it to the secret of this service there.')
  if (publicUrl === undefined) {
    faults.push('WARDLINE_OIDC_ISSUER needs WARDLINE_PUBLIC_URL: the provider returns browsers to an address below it.')
  }
  return faults
}
