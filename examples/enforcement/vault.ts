// An enforcement point that revokes the HashiCorp Vault token of a suspended agent, with all leases and child tokens.
//
//   WARDLINE_ENFORCEMENT_SECRET=whsec_… VAULT_ADDR=… VAULT_TOKEN=… ACCESSORS=accessors.json \
//     node examples/enforcement/vault.ts
//
// ACCESSORS is a JSON file { "<instance id>": "<accessor>" }, written by the issuer of the tokens. VAULT_TOKEN needs
// update on auth/token/revoke-accessor. A revoked token cannot be restored: configure the point with
// "actions": ["suspend"], and issue a new token when the agent is resumed.

import { readFileSync } from 'node:fs'
import { secret, send, serve, setting } from './verify.ts'

const address = setting('VAULT_ADDR', 'https://127.0.0.1:8200')
const headers = () => ({ 'x-vault-token': secret('VAULT_TOKEN') })
const accessors = setting('ACCESSORS')

const read = () => new Map(Object.entries(JSON.parse(readFileSync(accessors, 'utf8')) as Record<string, string>))
/** Accessors revoked by this process. Vault no longer knows them when a call is retried. */
const revoked = new Set<string>()

serve(
  async ({ action, instance_id }) => {
    if (action === 'resume') return
    const accessor = read().get(instance_id)
    // Fail if the accessor is missing: nothing was revoked, which must not look like a success.
    if (accessor === undefined) throw new Error(`no accessor of ${instance_id} is known`)
    if (revoked.has(accessor)) return
    const url = `${address}/v1/auth/token/revoke-accessor`
    await send({ url, method: 'POST', headers: headers(), body: { accessor } }, [200, 204])
    revoked.add(accessor)
  },
  async () => {
    read()
    await send({ url: `${address}/v1/auth/token/lookup-self`, headers: headers() }, [200])
  },
)
