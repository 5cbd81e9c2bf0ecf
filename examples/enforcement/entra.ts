// An enforcement point that disables the service principal or agent identity of a suspended agent in Microsoft Entra ID.
//
//   WARDLINE_ENFORCEMENT_SECRET=whsec_… ENTRA_TENANT=… ENTRA_CLIENT_ID=… ENTRA_CLIENT_SECRET=… IDENTITIES=… \
//     npm run example -- enforcement entra
//
// IDENTITIES lists object ids (UUID) of service principals, not of applications. The receiver is a separate app:
// Application.ReadWrite.OwnedBy and owner of the service principals, or AgentIdentity.EnableDisable.All with
// AgentIdentity.Read.All for agent identities. National clouds have other addresses: ENTRA_LOGIN_URL, GRAPH_URL.

import { serveIdentities } from './identities.ts'
import { Refusal, secret, send, setting, type Target } from './verify.ts'

const login = setting('ENTRA_LOGIN_URL', 'https://login.microsoftonline.com')
const graph = setting('GRAPH_URL', 'https://graph.microsoft.com')
const tokenUrl = `${login}/${encodeURIComponent(setting('ENTRA_TENANT'))}/oauth2/v2.0/token`
const clientId = setting('ENTRA_CLIENT_ID')

let token: { value: string; until: number } | undefined

async function authorization(): Promise<string> {
  if (token === undefined || token.until < Date.now()) {
    const body = new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: clientId,
      client_secret: secret('ENTRA_CLIENT_SECRET'),
      scope: `${graph}/.default`,
    })
    const answer = await send({ url: tokenUrl, method: 'POST', body }, [200])
    const { access_token: value, expires_in } = answer as { access_token: string; expires_in: number }
    // A minute early, so that it does not end on its way.
    token = { value, until: Date.now() + (expires_in - 60) * 1_000 }
  }
  return `Bearer ${token.value}`
}

async function call(target: Target, expected: readonly number[]): Promise<unknown> {
  try {
    return await send({ ...target, headers: { authorization: await authorization() } }, expected)
  } catch (fault) {
    // The secret was replaced, or the token revoked: the next attempt gets another one.
    if (fault instanceof Refusal && fault.status === 401) token = undefined
    throw fault
  }
}

function urlOf(id: string): string {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)) throw new Error(`${id} is no object id (UUID)`)
  return `${graph}/v1.0/servicePrincipals/${id}`
}

interface ServicePrincipal {
  '@odata.type'?: string
  accountEnabled: boolean
}
const read = async (id: string) =>
  (await call({ url: `${urlOf(id)}?$select=id,accountEnabled` }, [200])) as ServicePrincipal

async function change(id: string, accountEnabled: boolean): Promise<void> {
  // Agent identities have narrower permissions, at a separate address.
  const { '@odata.type': type } = await read(id)
  const cast = type === '#microsoft.graph.agentIdentity' ? '/microsoft.graph.agentIdentity' : ''
  await call({ url: `${urlOf(id)}${cast}`, method: 'PATCH', body: { accountEnabled } }, [204])
}

serveIdentities({
  isDisabled: async (id) => !(await read(id)).accountEnabled,
  disable: (id) => change(id, false),
  enable: (id) => change(id, true),
})
