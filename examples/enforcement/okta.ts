// An enforcement point that deactivates the Okta app of a suspended agent, or suspends its user.
//
//   WARDLINE_ENFORCEMENT_SECRET=whsec_… OKTA_URL=https://example.okta.com OKTA_TOKEN=… IDENTITIES=… \
//     npm run example -- enforcement okta
//
// IDENTITIES lists ids of apps (0oa…), users (00u…) or AI agents (wlp…). OKTA_TOKEN is an API token of an administrator
// who may manage them. Okta deletes a token that was not used for 30 days.

import { serveIdentities } from './identities.ts'
import { secret, send, setting } from './verify.ts'

const url = setting('OKTA_URL')
const headers = () => ({ accept: 'application/json', authorization: `SSWS ${secret('OKTA_TOKEN')}` })

/** By the prefix of the id. https://developer.okta.com/docs/api, the last one is in beta. */
const kinds = {
  '0oa': { path: '/api/v1/apps', disable: 'deactivate', enable: 'activate', enabled: ['ACTIVE'] },
  '00u': {
    path: '/api/v1/users',
    disable: 'suspend',
    enable: 'unsuspend',
    // In all of these states a user can sign in, or activate the account and then sign in.
    enabled: ['STAGED', 'PROVISIONED', 'ACTIVE', 'RECOVERY', 'PASSWORD_EXPIRED', 'LOCKED_OUT'],
  },
  wlp: {
    path: '/workload-principals/api/v1/ai-agents',
    disable: 'deactivate',
    enable: 'activate',
    enabled: ['ACTIVE'],
  },
}

function kindOf(id: string) {
  const kind = /^[0-9A-Za-z]{20}$/.test(id) ? kinds[id.slice(0, 3) as keyof typeof kinds] : undefined
  if (kind === undefined) throw new Error(`${id} is no id of an Okta app (0oa…), user (00u…) or AI agent (wlp…)`)
  return kind
}

async function post(id: string, verb: 'disable' | 'enable'): Promise<void> {
  const kind = kindOf(id)
  // 202: an AI agent changes later.
  await send(
    { url: `${url}${kind.path}/${id}/lifecycle/${kind[verb]}`, method: 'POST', headers: headers() },
    [200, 202],
  )
}

serveIdentities({
  async isDisabled(id) {
    const { path, enabled } = kindOf(id)
    const { status } = (await send({ url: `${url}${path}/${id}`, headers: headers() }, [200])) as { status: string }
    return !enabled.includes(status)
  },
  disable: (id) => post(id, 'disable'),
  async revoke(id) {
    if (!id.startsWith('00u')) return
    // Sessions that are open, and tokens that apps have.
    const sessions = `${url}${kinds['00u'].path}/${id}/sessions?oauthTokens=true`
    await send({ url: sessions, method: 'DELETE', headers: headers() }, [204])
  },
  enable: (id) => post(id, 'enable'),
})
