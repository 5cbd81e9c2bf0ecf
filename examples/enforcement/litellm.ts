// An enforcement point that blocks the LiteLLM keys of a suspended agent, and fires the kill switch of a LiteLLM agent.
//
//   WARDLINE_ENFORCEMENT_SECRET=whsec_… LITELLM_URL=… LITELLM_KEY=… IDENTITIES=… npm run example -- enforcement litellm
//
// LITELLM_KEY is the key of a proxy admin. IDENTITIES lists hashes of keys (64 hexadecimal digits, as the page of the
// key shows them: the file needs no secret) and ids of LiteLLM agents (UUID). A resume unblocks the keys. A kill switch
// cannot be taken back: start the agent again yourself.

import { type Lever, serveIdentities } from './identities.ts'
import { secret, send, setting } from './verify.ts'

const url = setting('LITELLM_URL')
const headers = () => ({ authorization: `Bearer ${secret('LITELLM_KEY')}` })
const post = (path: string, body?: object) =>
  send({ url: `${url}${path}`, method: 'POST', headers: headers(), body }, [200])

/** https://docs.litellm.ai/docs/proxy/virtual_keys */
const keys: Lever = {
  async isDisabled(key) {
    const found = await send({ url: `${url}/key/info?key=${key}`, headers: headers() }, [200])
    return (found as { info: { blocked: boolean | null } }).info.blocked === true
  },
  async disable(key) {
    await post('/key/block', { key })
  },
  async enable(key) {
    await post('/key/unblock', { key })
  },
}

/** Agents whose switch was fired. LiteLLM does not say whether an agent runs. */
const fired = new Set<string>()
/** https://docs.litellm.ai/docs/a2a_kill_switch: answers 200 if the agent's webhook answered 2xx, else 502. */
const switches: Lever = {
  isDisabled: async (agent) => fired.has(agent),
  async disable(agent) {
    await post(`/v1/agents/${agent}/kill_switch`)
    fired.add(agent)
  },
  async enable(agent) {
    fired.delete(agent)
    console.log(`${agent} was stopped by its kill switch: start it again`)
  },
}

function leverOf(identity: string): Lever {
  if (/^[0-9a-f]{64}$/.test(identity)) return keys
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(identity)) return switches
  throw new Error('IDENTITIES must list hashes of keys (64 hexadecimal digits) or ids of agents (UUID)')
}

serveIdentities({
  isDisabled: async (identity) => leverOf(identity).isDisabled(identity),
  disable: async (identity) => leverOf(identity).disable(identity),
  enable: async (identity) => leverOf(identity).enable(identity),
})
