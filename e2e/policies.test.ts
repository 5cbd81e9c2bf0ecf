import { createPublicKey, verify } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runCommand } from './command.ts'
import { beat, createKey, newInstance, unique } from './fleet.ts'
import { isExternal, needsOwnProcess, type Service, startService, until } from './service.ts'

interface Delivered {
  instance_id: string
  version: number
  body: string
  signature_ed25519: string
}

if (isExternal) process.stdout.write(`Policies of a folder are left out: ${needsOwnProcess}\n`)

let service: Service
let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'wardline-policies-'))
  service = await startService()
})
afterAll(async () => {
  await service?.stop()
  rmSync(folder, { recursive: true })
})

function write(name: string, text: string): string {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}
const policyFor = (title: string, agents: string, more = '') => `title: ${title}
for: { agents: '${agents}' }
rules:
  - title: Volumes are never deleted
    decision: deny
    match: { tool: volume_delete }
    cases: { match: [{ tool: volume_delete }], no_match: [{ tool: volume_list }] }
labels: [service]
${more}`

const wardline = async (...args: string[]) => {
  const env = { WARDLINE_URL: service.baseUrl, WARDLINE_KEY: service.key }
  const { code, stdout, stderr } = await runCommand(['policy', ...args], env, folder)
  return { code, stdout, stderr }
}
const delivered = async (id: string, key = service.key) => {
  const { body } = await service.call<Delivered>('GET', `/api/instances/${id}/policy`, { key })
  return { ...body, policies: JSON.parse(body.body).policies as { title: string; mode: string; document: object }[] }
}
const announced = async (id: string) =>
  Number((await service.call('GET', `/api/instances/${id}/status`)).headers['x-wardline-policy'])

test('an operator stores, enforces and deletes a policy, and the agent gets each version, signed', async () => {
  const id = await newInstance(service, 'guarded')
  const key = await createKey(service, { scope: 'agent', instances: [id] })
  const title = unique('Volumes')
  const file = write('policy.yml', policyFor(title, id))
  const added = await wardline('add', file)
  expect(added, added.stderr).toMatchObject({ code: 0, stdout: expect.stringContaining('version 1, mode observe') })

  const first = await delivered(id, key)
  expect(first.policies).toMatchObject([{ title, mode: 'observe', document: { title } }])
  const { body: jwks } = await service.call<{ keys: { x: string }[] }>('GET', '/.well-known/wardline-keys.json')
  const signer = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: jwks.keys[0]!.x }, format: 'jwk' })
  const text = `wardline-policy-v1\n${id}\n${first.version}\n${first.body}\n`
  expect(verify(null, Buffer.from(text), signer, Buffer.from(first.signature_ed25519, 'base64url'))).toBe(true)

  expect(await wardline('mode', title, 'enforce')).toMatchObject({ code: 0 })
  await until(
    'the answer of a poll to have the new version',
    () => announced(id),
    (version) => version > first.version,
  )
  expect((await delivered(id, key)).policies).toMatchObject([{ title, mode: 'enforce' }])

  const next = write('next.yml', policyFor(title, id, 'flow: default\n'))
  expect(await wardline('add', next, '--replace', title)).toMatchObject({ code: 0 })
  expect((await wardline('show', title)).stdout).toContain('flow: default')
  expect((await wardline('show', title, '--revision', '1')).stdout).not.toContain('flow: default')
  expect((await wardline('list')).stdout).toMatch(new RegExp(`enforce +2 +1 +default +${id} +${title}`))
  expect(JSON.parse((await wardline('export', title, '--to', 'claude-code')).stdout)).toEqual({ permissions: {} })

  expect(await wardline('delete', title)).toMatchObject({ code: 0 })
  expect((await delivered(id, key)).policies).toEqual([])
  expect(await wardline('show', title)).toMatchObject({ code: 2, stderr: expect.stringContaining(title) })
})

test('a policy with a fault is refused with its place, by lint and by the service', async () => {
  const file = write('broken.yml', policyFor('Broken', 'x', 'flow: sometimes\n'))
  const sentence = 'flow must be off, default or strict.'
  expect(await wardline('lint', file)).toMatchObject({ code: 1, stdout: `${file}:9:1: ${sentence}\n` })
  expect(await wardline('add', file)).toMatchObject({ code: 2, stderr: `Line 9, column 1: ${sentence}\n` })
})

test('a backtest says what a policy would have decided on the calls that are stored', async () => {
  const id = await newInstance(service, 'past')
  for (const tool of ['volume_list', 'volume_delete']) {
    const event = { severity: 'info', source: 'e2e', event_type: 'tool_call', description: tool, instance_id: id }
    await service.call('POST', '/api/events', { body: { ...event, metadata: { toolName: tool, params: {} } } })
  }
  const file = write('past.yml', policyFor('Past', id))
  const { code, stdout } = await wardline('backtest', file)
  expect(code).toBe(0)
  expect(stdout).toMatch(
    /^The policy would have asked 0 times and denied 1 of 2 calls in .*, on 1 agent: 0 asks a session\.$/m,
  )
  expect(stdout).toMatch(new RegExp(`deny +volume_delete +Volumes are never deleted +${id}`))
})

test('labels of a file are stored with the policy that names it, and tried on stored calls', async () => {
  const id = await newInstance(service, 'labelled')
  const title = unique('Labelled')
  write('ours.labels.yaml', 'post_ledger: { is: [sends, irreversible] }\nread_ticket: { is: [untrusted] }\n')
  const file = write('labelled.yml', `title: ${title} # ours\nlabels: [github, ./ours.labels.yaml]\nflow: default\n`)
  expect(await wardline('add', file)).toMatchObject({ code: 0 })
  const [policy] = (await delivered(id)).policies.filter((each) => each.title === title)
  expect(policy!.document).toMatchObject({
    labels: { post_ledger: { is: ['sends', 'irreversible'] }, get_me: { is: ['private', 'directory'] } },
  })
  // What is stored is whole: its text can be stored again.
  const { stdout } = await wardline('show', title)
  expect(stdout).toMatch(/^title: .* # ours\nlabels: \[github, \{"post_ledger"/)
  expect(await wardline('add', write('shown.yml', stdout), '--replace', title)).toMatchObject({ code: 0 })
  for (const tool of ['read_ticket', 'post_ledger']) {
    const event = { severity: 'info', source: 'e2e', event_type: 'tool_call', description: tool, instance_id: id }
    await service.call('POST', '/api/events', { body: { ...event, metadata: { toolName: tool, params: {} } } })
  }
  const past = write(
    'past-labels.yml',
    `title: Past\nfor: { agents: ${id} }\nlabels: ./ours.labels.yaml\nflow: default\n`,
  )
  expect(await wardline('backtest', past)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('of 2 calls'),
    stderr: expect.stringContaining('1 more call would have been asked'),
  })
  expect(await wardline('delete', title)).toMatchObject({ code: 0 })

  const broken = write('ours.labels.yaml', 'post_ledger:\n  is: [unheard]\n')
  for (const command of ['add', 'backtest']) {
    const refused = await wardline(command, file)
    expect(refused.stderr).toContain(`${broken}:2:8: post_ledger.is[0] must be untrusted,`)
    expect(refused.stderr).toContain('it has 1 fault.')
  }
})

test('tags of operators decide which policies an agent gets, tags of the agent do not', async () => {
  const tag = unique('env').slice(0, 30)
  const id = unique('tagged')
  await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id, tags: [tag] } })
  const title = unique('Tagged')
  await service.call('POST', '/api/policies', { body: { title, for: { tags: [tag] }, enforce_for: { agents: [id] } } })
  const titles = async () => (await delivered(id)).policies.map((each) => `${each.title} ${each.mode}`)
  expect(await titles()).not.toContain(`${title} enforce`)
  const before = await announced(id)
  await service.call('PUT', `/api/instances/${id}/tags`, { body: { tags: [tag] } })
  expect(await announced(id)).toBeGreaterThan(before)
  expect(await titles()).toContain(`${title} enforce`)
})

test.skipIf(isExternal)('policies of a folder survive a crash with the same version', async () => {
  const own = mkdtempSync(join(tmpdir(), 'wardline-policy-dir-'))
  const labelled = policyFor('From git', '*', 'mode: enforce\n').replace('[service]', '[service, ./own.labels.yaml]')
  writeFileSync(join(own, 'volumes.yml'), labelled)
  writeFileSync(join(own, 'own.labels.yaml'), 'post_ledger: { is: [sends] }\n')
  const started = await startService({ env: { WARDLINE_POLICY_DIR: own } })
  try {
    await beat(started, 'agent-1')
    const read = async () => (await started.call<Delivered>('GET', '/api/instances/agent-1/policy')).body
    const first = await until('the policy of the folder', read, ({ body }) => body.includes('From git'))
    expect(first.body).toContain('"post_ledger":{"is":["sends"]')
    await started.kill9()
    await started.start()
    expect(await read()).toEqual(first)
    rmSync(join(own, 'volumes.yml'))
    const last = await until('the policy to be removed with its file', read, ({ version }) => version > first.version)
    expect(JSON.parse(last.body).policies).toEqual([])
  } finally {
    await started.stop()
    rmSync(own, { recursive: true })
  }
})
