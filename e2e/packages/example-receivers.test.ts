import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Webhook } from 'standardwebhooks'
import { afterAll, expect, test } from 'vitest'
import { signed } from '../../examples/enforcement/sigv4.ts'
import { beat, unique } from '../fleet.ts'
import {
  awsRole,
  entraAgent,
  entraPrincipal,
  litellmKey,
  litellmSwitch,
  oktaAgent,
  oktaApp,
  oktaUser,
  type StandIn,
  secretOf,
} from '../provider-stand-ins.ts'
import { isExternal, newDataDir, startService, until } from '../service.ts'

const program = fileURLToPath(new URL('../../examples/enforcement/receiver.ts', import.meta.url))
const secret = `whsec_${randomBytes(32).toString('base64')}`
const servers: Server[] = []
const processes: ChildProcess[] = []
afterAll(() => {
  for (const child of processes) child.kill('SIGKILL')
  for (const server of servers) {
    server.closeAllConnections()
    server.close()
  }
})

/** Both agents have the identity of the provider; a third one has none. */
const agents = ['bot-1', 'bot-2']

/** Starts a provider and the receiver for it. */
async function open(lever: string, provider: StandIn) {
  const server = createServer(provider.answer)
  servers.push(server)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const folder = newDataDir()
  const identities = join(folder, 'identities.json')
  writeFileSync(identities, JSON.stringify({ [agents[0]!]: provider.identity, [agents[1]!]: [provider.identity] }))
  const settings = {
    ...provider.env(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    PORT: '0',
    WARDLINE_ENFORCEMENT_SECRET: secret,
    IDENTITIES: identities,
  }
  const file = join(folder, 'receiver.env')
  writeFileSync(
    file,
    Object.entries(settings)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(''),
    { mode: 0o600 },
  )

  let output = ''
  let url = ''
  let child: ChildProcess
  async function start(): Promise<void> {
    const started = spawn(process.execPath, [program, 'enforcement', lever, file], { stdio: 'pipe' })
    processes.push(started)
    child = started
    let mine = ''
    for (const stream of [started.stdout, started.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        mine += text
        output += text
      })
    }
    await until(
      `${lever} to listen`,
      () => mine,
      (text) => text.includes('listening on'),
    )
    url = /http:\S+/.exec(mine)![0]
  }
  await start()

  let version = 0
  async function call(action: 'suspend' | 'resume' | 'test', agent: string | null = agents[0]!) {
    version += 1
    const at = new Date()
    const body = JSON.stringify({ action, instance_id: agent, version, reason: null, tags: [], at: at.toISOString() })
    const id = unique('enf')
    const headers = {
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
      'webhook-signature': new Webhook(secret).sign(id, at, body),
    }
    const response = await fetch(url, { method: 'POST', body, headers })
    expect(await response.text()).not.toMatch(/secret/i)
    return { status: response.status, retryAfter: response.headers.get('retry-after') }
  }
  return {
    url: () => url,
    call,
    status: async (...given: Parameters<typeof call>) => (await call(...given)).status,
    output: () => output,
    heldFile: `${identities}.held`,
    async restart(): Promise<void> {
      child.kill('SIGKILL')
      await once(child, 'exit')
      await start()
    },
  }
}

/** How each provider says that it has too many requests, as the receiver passes it on. */
const throttled: Record<string, [status: number, retryAfter: RegExp | null]> = {
  litellm: [503, /^17$/],
  // The time until the reset, which is given as a time of day.
  okta: [503, /^1[5-8]$/],
  entra: [503, /^17$/],
  // AWS names no time: the pauses of Wardline apply.
  aws: [502, null],
}

test.skipIf(isExternal).concurrent.each<[string, string, () => StandIn, off: string[], on: string]>([
  ['a LiteLLM key', 'litellm', litellmKey, ['block'], 'unblock'],
  ['an Okta app', 'okta', oktaApp, ['deactivate'], 'activate'],
  ['an Okta user', 'okta', oktaUser, ['suspend', 'sessions'], 'unsuspend'],
  ['an Okta AI agent', 'okta', oktaAgent, ['deactivate'], 'activate'],
  ['an Entra service principal', 'entra', entraPrincipal, ['disable'], 'enable'],
  ['an Entra agent identity', 'entra', entraAgent, ['disable'], 'enable'],
  ['an AWS role', 'aws', awsRole, ['AttachRolePolicy'], 'DetachRolePolicy'],
])(
  '%s is disabled and enabled by its provider, and what the receiver did not disable stays so',
  async (_name, lever, makeProvider, off, on) => {
    const provider = makeProvider()
    const { status, call, output, heldFile, restart } = await open(lever, provider)
    /** Changes since the last call. */
    const changes = () => provider.changes.splice(0)
    expect(await status('test', null)).toBe(204)
    expect(changes()).toEqual([])

    // Confirmed only once a read shows the change. Twice is not done twice.
    // Open sessions are ended each time.
    const again = off.filter((change) => change === 'sessions')
    provider.staleReads = 2
    expect(await status('suspend')).toBe(204)
    expect([provider.isDisabled, changes()]).toEqual([true, off])
    expect(provider.unseen()).toBe(0)
    expect(await status('suspend')).toBe(204)
    expect(changes()).toEqual(again)
    expect(statSync(heldFile).mode & 0o777).toBe(0o600)

    // What it disabled is noted, so it is enabled after a restart as well.
    await restart()
    expect(await status('resume')).toBe(204)
    expect([provider.isDisabled, changes()]).toEqual([false, [on]])
    expect(provider.unseen()).toBe(0)
    expect(await status('resume')).toBe(204)
    expect(changes()).toEqual([])

    // Faults are not confirmed, and the retry does what is missing.
    provider.staleReads = 0
    for (const mood of ['down', 'unauthorized', 'throttled'] as const) {
      const [expected, pause] = mood === 'throttled' ? throttled[lever]! : [502, null]
      for (const action of ['suspend', 'resume'] as const) {
        provider.mood = mood
        const refused = await call(action)
        expect([refused.status, changes()], mood).toEqual([expected, []])
        if (pause) expect(refused.retryAfter).toMatch(pause)
        else expect(refused.retryAfter, mood).toBeNull()
        provider.mood = 'well'
        expect(await status(action), mood).toBe(204)
        expect([provider.isDisabled, changes()], mood).toEqual(action === 'suspend' ? [true, off] : [false, [on]])
      }
    }

    // Disabled by others: it stays so until they enable it.
    provider.isDisabled = true
    expect(await status('suspend')).toBe(204)
    expect(await status('resume')).toBe(502)
    expect([provider.isDisabled, changes()]).toEqual([true, again])
    expect(output()).toContain('was not disabled by this receiver: enable it yourself')
    provider.isDisabled = false
    expect(await status('resume')).toBe(204)
    expect(changes()).toEqual([])

    // Of two agents: until both are resumed.
    const [first, second] = agents
    expect(await Promise.all([status('suspend', first), status('suspend', second)])).toEqual([204, 204])
    expect(changes()).toEqual([...off, ...again])
    expect(await status('resume', first)).toBe(502)
    expect([provider.isDisabled, changes()]).toEqual([true, []])
    expect(await status('resume', second)).toBe(204)
    expect(await status('resume', first)).toBe(204)
    expect([provider.isDisabled, changes()]).toEqual([false, [on]])

    expect(await status('suspend', 'bot-3')).toBe(502)
    for (const name of ['litellm', 'okta', 'entra', 'token', 'aws']) expect(output()).not.toContain(secretOf(name))
    expect(output()).not.toContain(secret)
  },
)

test.skipIf(isExternal)(
  'an Okta user whose sessions are not ended yet is not confirmed, and the retry ends them',
  async () => {
    const provider = Object.assign(oktaUser(), { sessionFaults: 1 })
    const { status } = await open('okta', provider)
    expect(await status('suspend')).toBe(502)
    expect([provider.isDisabled, provider.changes]).toEqual([true, ['suspend']])
    expect(await status('suspend')).toBe(204)
    expect(provider.changes).toEqual(['suspend', 'sessions'])
    expect(await status('resume')).toBe(204)
    expect([provider.isDisabled, provider.changes.at(-1)]).toEqual([false, 'unsuspend'])
  },
)

test.skipIf(isExternal)('a provider that does not answer, or never shows the change, confirms nothing', async () => {
  const cases = [
    ['litellm', litellmKey()],
    ['okta', oktaApp()],
    ['entra', entraPrincipal()],
    ['aws', awsRole()],
    ['okta', Object.assign(oktaApp(), { staleReads: Number.POSITIVE_INFINITY })],
  ] as const
  const answers = cases.map(async ([lever, provider]) => {
    const { status, output } = await open(lever, provider)
    if (provider.staleReads === 0) provider.mood = 'silent'
    expect(await status('suspend'), lever).toBe(502)
    expect(output()).toContain('not done within 13 seconds')
  })
  await Promise.all(answers)
})

test.skipIf(isExternal)(
  'the kill switch of a LiteLLM agent is fired once for a suspension, if its webhook confirms, and not taken back',
  async () => {
    const provider = litellmSwitch()
    const { status, output } = await open('litellm', provider)
    provider.webhookStatus = 500
    expect(await status('suspend')).toBe(502)
    provider.webhookStatus = 202
    expect(await status('suspend')).toBe(204)
    expect(await status('suspend')).toBe(204)
    expect(provider.changes).toEqual(['fire', 'fire'])
    expect(await status('resume')).toBe(204)
    expect(output()).toContain('was stopped by its kill switch: start it again')
    expect(await status('suspend')).toBe(204)
    expect(provider.changes).toEqual(['fire', 'fire', 'fire'])
  },
)

test.skipIf(isExternal)('a suspension and a resume of the service reach every provider', async () => {
  const made = await Promise.all(
    (
      [
        ['litellm', litellmKey()],
        ['okta', oktaApp()],
        ['entra', entraPrincipal()],
        ['aws', awsRole()],
      ] as const
    ).map(async ([name, provider]) => ({ name, provider, ...(await open(name, provider)) })),
  )
  const file = join(newDataDir(), 'points.json')
  writeFileSync(file, JSON.stringify(made.map(({ name, url }) => ({ name, url: url(), secret }))))
  chmodSync(file, 0o600)
  const service = await startService({ env: { WARDLINE_ENFORCEMENT_FILE: file } })
  try {
    const [agent] = agents
    await beat(service, agent!)
    const disabled = () => made.map(({ provider }) => provider.isDisabled)
    await service.call('POST', `/api/kill/${agent}`, { body: { reason: 'It leaked a key' } })
    const confirmed = async () => {
      const { body } = await service.call<{ suspensions: { enforcement: { state: string }[] }[] }>(
        'GET',
        `/api/instances/${agent}/suspensions`,
      )
      return body.suspensions[0]!.enforcement.map(({ state }) => state)
    }
    await until(
      'the confirmations',
      confirmed,
      (states) => states.length === 4 && states.every((s) => s === 'confirmed'),
    )
    expect(disabled()).toEqual([true, true, true, true])
    await service.call('POST', `/api/resume/${agent}`)
    await until(
      'the resumes',
      async () => disabled(),
      (states) => !states.includes(true),
    )
  } finally {
    await service.stop()
  }
})

// The example of Amazon's test suite for Signature Version 4: post-x-www-form-urlencoded.
test('requests to AWS are signed as AWS does', () => {
  const key = { id: 'AKIDEXAMPLE', secret: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' }
  const request = { host: 'example.amazonaws.com', region: 'us-east-1', service: 'service', body: 'Param1=value1' }
  expect(signed(request, key, Date.parse('2015-08-30T12:36:00Z')).authorization).toMatch(
    /SignedHeaders=content-type;host;x-amz-date, Signature=ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a$/,
  )
})
