import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { beat, unique } from '../fleet.ts'
import { isExternal, needsOwnProcess, newDataDir, type Service, startService, until } from '../service.ts'

const program = fileURLToPath(new URL('../../examples/enforcement/receiver.ts', import.meta.url))
const secret = `whsec_${randomBytes(32).toString('base64')}`
const agent = unique('lever')
const folder = newDataDir()
const servers: Server[] = []
const processes: ChildProcess[] = []
let service: Service | undefined

async function standIn(answer: RequestListener, at: string | number = 0): Promise<string> {
  const server = createServer(answer)
  servers.push(server)
  await once(typeof at === 'string' ? server.listen(at) : server.listen(at, '127.0.0.1'), 'listening')
  const address = server.address() as AddressInfo | string
  return typeof address === 'string' ? address : `http://127.0.0.1:${address.port}`
}

const textOf = async (request: IncomingMessage) => Buffer.concat(await request.toArray()).toString()

/** The necessary requests of the Docker Engine API with their responses. */
const docker = { running: true, requests: [] as string[] }
const dockerAnswer: RequestListener = (request, response) => {
  const url = new URL(request.url ?? '', 'http://docker')
  docker.requests.push(`${request.method} ${url.pathname}`)
  const json = (body: object) => response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
  const path = url.pathname.replace(/^\/v1\.\d+/, '')
  if (request.method === 'GET' && path === '/version') return json({ ApiVersion: '1.47' })
  if (request.method === 'GET' && path === '/containers/json') {
    const { label } = JSON.parse(url.searchParams.get('filters') ?? '{}') as { label: string[] }
    const isShown = docker.running || url.searchParams.get('all') === 'true'
    return json(label[0] === `wardline.instance=${agent}` && isShown ? [{ Id: '8dfafdbc3a40' }] : [])
  }
  const [, verb] = /^\/containers\/8dfafdbc3a40\/(stop|start)$/.exec(path) ?? []
  if (request.method !== 'POST' || verb === undefined) return response.writeHead(404).end('{"message":"not found"}')
  const isDone = docker.running === (verb === 'start')
  docker.running = verb === 'start'
  response.writeHead(isDone ? 304 : 204).end()
}

/** Those of a Kubernetes API server. */
const kubernetes = { replicas: 2, types: [] as (string | undefined)[] }
const deploymentsPath = '/apis/apps/v1/namespaces/agents/deployments'
const kubernetesAnswer: RequestListener = async (request, response) => {
  const url = new URL(request.url ?? '', 'http://kubernetes')
  if (request.headers.authorization !== 'Bearer cluster-token') return response.writeHead(401).end('{"kind":"Status"}')
  const json = (body: object) => response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
  if (request.method === 'GET' && url.pathname === deploymentsPath) {
    const selector = url.searchParams.get('labelSelector')
    const isFound = selector === null || selector === `wardline-instance=${agent}`
    const items = isFound ? [{ metadata: { name: 'batch', namespace: 'agents' } }] : []
    return json({ kind: 'DeploymentList', apiVersion: 'apps/v1', items })
  }
  if (request.method === 'PATCH' && url.pathname === `${deploymentsPath}/batch/scale`) {
    kubernetes.types.push(request.headers['content-type'])
    kubernetes.replicas = JSON.parse(await textOf(request)).spec.replicas
    return json({ kind: 'Scale', apiVersion: 'autoscaling/v1', spec: { replicas: kubernetes.replicas } })
  }
  response.writeHead(404).end('{"kind":"Status"}')
}

/** Those of HashiCorp Vault. */
const vault = { revoked: [] as string[] }
const vaultAnswer: RequestListener = async (request, response) => {
  const body = await textOf(request)
  if (request.headers['x-vault-token'] !== 'vault-token') return response.writeHead(403).end('{"errors":[]}')
  if (request.method === 'GET' && request.url === '/v1/auth/token/lookup-self') return response.end('{"data":{}}')
  if (request.method === 'POST' && request.url === '/v1/auth/token/revoke-accessor') {
    vault.revoked.push(JSON.parse(body).accessor)
    return response.writeHead(204).end()
  }
  response.writeHead(404).end('{"errors":[]}')
}

/** Starts an example; resolves with its URL. */
async function startLever(lever: string, env: Record<string, string>): Promise<string> {
  const child = spawn(process.execPath, [program, 'enforcement', lever], {
    env: { PATH: process.env.PATH ?? '', PORT: '0', WARDLINE_ENFORCEMENT_SECRET: secret, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  processes.push(child)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text
    })
  }
  await until(
    `${lever} to listen`,
    () => output,
    (text) => text.includes('listening on'),
  )
  return /http:\S+/.exec(output)![0]
}

const urls: Record<string, string> = {}

beforeAll(async () => {
  if (isExternal) return
  const socket = join(folder, 'docker.sock')
  await standIn(dockerAnswer, socket)
  const accessors = join(folder, 'accessors.json')
  writeFileSync(accessors, JSON.stringify({ [agent]: '476ea048-ded5-4d07-eeea-938c6b4e43ec' }))
  urls.docker = await startLever('docker', { DOCKER_SOCKET: socket })
  urls.kubernetes = await startLever('kubernetes', {
    KUBERNETES_API: await standIn(kubernetesAnswer),
    KUBERNETES_NAMESPACE: 'agents',
    KUBERNETES_TOKEN: 'cluster-token',
    RESUME_REPLICAS: '2',
  })
  urls.vault = await startLever('vault', {
    VAULT_ADDR: await standIn(vaultAnswer),
    VAULT_TOKEN: 'vault-token',
    ACCESSORS: accessors,
  })
  const file = join(folder, 'points.json')
  writeFileSync(file, JSON.stringify(Object.entries(urls).map(([name, url]) => ({ name, url, secret }))))
  chmodSync(file, 0o600)
  service = await startService({ env: { WARDLINE_ENFORCEMENT_FILE: file } })
})
afterAll(async () => {
  await service?.stop()
  for (const child of processes) child.kill('SIGKILL')
  for (const server of servers) server.close()
})

interface Suspensions {
  suspensions: { enforcement: { point: string; state: string; last_error: string | null }[] }[]
}

const statesOf = async (id: string) => {
  const { body } = await service!.call<Suspensions>('GET', `/api/instances/${id}/suspensions`)
  return body.suspensions[0]!.enforcement.map(({ point, state }) => `${point} ${state}`)
}

test('the example levers stop and start what belongs to an agent', async ({ skip }) => {
  if (!service) return skip(needsOwnProcess)
  const { call } = service
  for (const name of Object.keys(urls)) {
    const { body } = await call<{ ok: boolean }>('POST', `/api/enforcement-points/${name}/test`)
    expect(body, name).toMatchObject({ ok: true, status: 204 })
  }
  expect([docker.running, kubernetes.replicas, vault.revoked]).toEqual([true, 2, []])
  await beat(service, agent)
  await call('POST', `/api/kill/${agent}`, { body: { reason: 'It leaked a key' } })
  await until(
    'all levers',
    () => statesOf(agent),
    (states) => states.every((state) => state.endsWith('confirmed')) && states.length === 3,
  )
  expect([docker.running, kubernetes.replicas]).toEqual([false, 0])
  expect(kubernetes.types).toEqual(['application/merge-patch+json'])
  expect(vault.revoked).toEqual(['476ea048-ded5-4d07-eeea-938c6b4e43ec'])
  await call('POST', `/api/resume/${agent}`)
  await until(
    'the restart',
    async () => docker.running && kubernetes.replicas === 2,
    (isBack) => isBack,
  )
  expect(vault.revoked).toHaveLength(1)
})

// With a wrong label the agent would continue although the stop was confirmed.
test('the example levers confirm nothing when they find nothing to stop', async ({ skip }) => {
  if (!service) return skip(needsOwnProcess)
  const other = unique('unlabelled')
  await beat(service, other)
  await service.call('POST', `/api/kill/${other}`, { body: { reason: 'Nobody has this label' } })
  const read = async () => {
    const { body } = await service!.call<Suspensions>('GET', `/api/instances/${other}/suspensions`)
    return body.suspensions[0]!.enforcement.map(({ state, last_error }) => `${state}: ${last_error}`)
  }
  const refused = 'pending: The receiver answered 502.'
  await until(
    'three refusals',
    read,
    (answers) => answers.length === 3 && answers.every((answer) => answer === refused),
  )
})

test('the example levers refuse what is forged, old or overtaken', async ({ skip }) => {
  if (!service) return skip(needsOwnProcess)
  const send = (version: number, action: string, key = secret, at = new Date()) => {
    const body = JSON.stringify({ action, instance_id: agent, version, reason: null, tags: [], at: at.toISOString() })
    const id = unique('enf')
    const headers = {
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
      'webhook-signature': new Webhook(key).sign(id, at, body),
    }
    return fetch(urls.docker!, { method: 'POST', body, headers }).then(({ status }) => status)
  }
  const forged = `whsec_${randomBytes(32).toString('base64')}`
  expect(await send(90, 'suspend', forged)).toBe(401)
  expect(await send(90, 'suspend', secret, new Date(Date.now() - 400_000))).toBe(401)
  expect(docker.running).toBe(true)
  expect(await send(101, 'resume')).toBe(204)
  // A retry of the previous suspension.
  expect(await send(100, 'suspend')).toBe(204)
  expect(docker.running).toBe(true)
})
