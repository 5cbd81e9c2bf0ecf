// An enforcement point that scales the Deployment of a suspended agent to 0, found by the label
// wardline-instance=<id>.
//
//   WARDLINE_ENFORCEMENT_SECRET=whsec_… KUBERNETES_NAMESPACE=agents node examples/enforcement/kubernetes.ts
//
// In a cluster it uses its service account, which needs list on deployments and patch on deployments/scale. Outside,
// set KUBERNETES_API (address of the API server) and KUBERNETES_TOKEN. To trust the certificate authority of the
// cluster, set NODE_EXTRA_CA_CERTS=/var/run/secrets/kubernetes.io/serviceaccount/ca.crt. A resume scales to
// RESUME_REPLICAS (default: 1).

import { existsSync, readFileSync } from 'node:fs'
import { secret, send, serve, setting } from './verify.ts'

const tokenFile = '/var/run/secrets/kubernetes.io/serviceaccount/token'
const api = setting('KUBERNETES_API', 'https://kubernetes.default.svc')
const namespace = encodeURIComponent(setting('KUBERNETES_NAMESPACE'))
const resumeReplicas = Number(setting('RESUME_REPLICAS', '1'))
const deployments = `${api}/apis/apps/v1/namespaces/${namespace}/deployments`

/** Reads the token for each request, because the cluster rotates it. */
const headers = () => ({
  accept: 'application/json',
  authorization: `Bearer ${existsSync(tokenFile) ? readFileSync(tokenFile, 'utf8').trim() : secret('KUBERNETES_TOKEN')}`,
})

interface Deployments {
  items: { metadata: { name: string } }[]
}

serve(
  async ({ action, instance_id }) => {
    const selector = encodeURIComponent(`wardline-instance=${instance_id}`)
    const { items } = (await send(
      { url: `${deployments}?labelSelector=${selector}`, headers: headers() },
      [200],
    )) as Deployments
    // Fail if no Deployment was found: a wrong label must not look like a success.
    if (items.length === 0) throw new Error(`no Deployment has the label wardline-instance=${instance_id}`)
    const replicas = action === 'suspend' ? 0 : resumeReplicas
    for (const { metadata } of items) {
      const url = `${deployments}/${encodeURIComponent(metadata.name)}/scale`
      const patch = { ...headers(), 'content-type': 'application/merge-patch+json' }
      await send({ url, method: 'PATCH', headers: patch, body: { spec: { replicas } } }, [200])
    }
  },
  async () => {
    await send({ url: `${deployments}?limit=1`, headers: headers() }, [200])
  },
)
