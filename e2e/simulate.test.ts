import { type ChildProcess, spawn } from 'node:child_process'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { allEvents } from './fleet.ts'
import { endWithTests } from './left-behind.ts'
import {
  freePort,
  isExternal,
  needsOwnProcess,
  newApiKey,
  newDataDir,
  type Service,
  startService,
  until,
} from './service.ts'
import type { EventRow, StatusView, TrustView } from './shapes.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
if (isExternal) process.stdout.write(`The demo test is left out: ${needsOwnProcess}\n`)

const running = new Set<ChildProcess>()
afterEach(() => {
  for (const child of running) child.kill('SIGKILL')
})

interface Run {
  child: ChildProcess
  stdout(): string
  stderr(): string
  exited: Promise<number | null>
}

function wardline(args: string[], env: Record<string, string>): Run {
  const child = spawn(process.execPath, [inject('command'), ...args], {
    cwd: root,
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', TMPDIR: tmpdir(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  endWithTests(child)
  running.add(child)
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (chunk) => {
    stdout += chunk
  })
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const exited = new Promise<number | null>((resolve) => {
    child.once('close', (code) => {
      running.delete(child)
      resolve(code)
    })
  })
  return { child, stdout: () => stdout, stderr: () => stderr, exited }
}

interface Detail {
  status: string
  fail_mode: string
  last_heartbeat: string
  control: { confirmed: boolean }
}

interface Summary {
  agents: number
  heartbeats: number
  decoys: { id: string; type: string; touched: boolean; matched: boolean; breaches: number }[]
  anomalies: { instance_id: string }[]
  requests: number
  failed: number
  stepsLeftOut: number
}

describe('wardline simulate', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService()
  })
  afterAll(() => service?.stop())

  const simulate = (...args: string[]) =>
    wardline(['simulate', '--url', service.baseUrl, ...args], { WARDLINE_KEY: service.key })
  const ofDemo = (rows: EventRow[], type: string) =>
    rows.filter((row) => row.event_type === type && row.instance_id?.startsWith('demo-'))

  test('plays its whole scenario: injection, one breach per touched decoy, an anomaly of the runaway', async () => {
    const newest = (await allEvents(service))[0]?.seq ?? 0
    const run = simulate('--agents', '5', '--duration', '12', '--speed', '10', '--seed', '11', '--json')
    expect(await run.exited, run.stderr()).toBe(0)
    const summary = JSON.parse(run.stdout()) as Summary
    expect(summary, run.stdout()).toMatchObject({ agents: 5, failed: 0, stepsLeftOut: 0 })
    expect(summary.heartbeats).toBeGreaterThanOrEqual(5)

    const rows = (await allEvents(service)).filter((row) => row.seq > newest)
    expect(summary.decoys.map(({ type }) => type).sort()).toEqual(['api_key', 'file_path'])
    for (const decoy of summary.decoys) {
      const breaches = ofDemo(rows, 'honeypot_triggered').filter((row) => row.metadata?.honeypot_id === decoy.id)
      expect(breaches, decoy.type).toHaveLength(1)
      expect(breaches[0]).toMatchObject({ severity: 'breach', source: 'wardline' })
      expect(decoy).toMatchObject({ touched: true, matched: true, breaches: 1 })
    }

    const anomalies = ofDemo(rows, 'anomaly_detected')
    expect(anomalies.length).toBeGreaterThanOrEqual(1)
    expect(new Set(anomalies.map((row) => row.instance_id)).size, 'only the runaway is anomalous').toBe(1)
    expect(summary.anomalies).toHaveLength(anomalies.length)

    expect(ofDemo(rows, 'prompt_injection_detected')).toHaveLength(1)
    expect(ofDemo(rows, 'injection_blocked')).toHaveLength(1)
    expect(ofDemo(rows, 'tool_call').length).toBeGreaterThan(5)
    const sent = rows.filter((row) => row.source.startsWith('demo-'))
    expect(sent.filter((row) => row.metadata?.demo !== true || row.instance_id !== row.source)).toEqual([])

    const { body } = await service.call<StatusView>('GET', '/api/status')
    const demo = body.instances.filter(({ id }) => id.startsWith('demo-')).map(({ name }) => name)
    expect(demo).toEqual(
      expect.arrayContaining([
        'Support bot 1',
        'Code reviewer 1',
        'Research agent 1',
        'Billing assistant 1',
        'Data analyst 1',
      ]),
    )
  })

  test('stops the tool calls of a killed agent, which confirms, sends heartbeats, and continues after the resume', async () => {
    const id = 'demo-support-bot-1'
    const run = simulate('--agents', '1', '--duration', '60', '--speed', '60')
    const detail = async () => (await service.call<Detail>('GET', `/api/instances/${id}`)).body
    const confirmed = () => until('a confirmed control state', detail, (body) => body.control.confirmed === true)
    const toolCalls = async () => ofDemo(await allEvents(service), 'tool_call').filter((row) => row.instance_id === id)
    await until('its hint how to stop it', run.stdout, (text) => text.includes('/api/kill/'))

    expect((await service.call('POST', `/api/kill/${id}`, { body: { reason: 'bad\u001b[2J day' } })).status).toBe(200)
    const stopped = await confirmed()
    expect(stopped).toMatchObject({ status: 'suspended', fail_mode: 'closed' })
    await until('its line about the kill', run.stdout, (text) =>
      text.includes('was suspended by an operator: bad [2J day'),
    )
    const before = await toolCalls()
    // At this speed about forty tool calls take as long as three heartbeats.
    let last = stopped.last_heartbeat
    for (let beats = 0; beats < 3; beats++) {
      last = (await until('another heartbeat', detail, (body) => body.last_heartbeat !== last)).last_heartbeat
    }
    // A call in progress during the kill may still be stored.
    expect((await toolCalls()).length - before.length).toBeLessThanOrEqual(1)

    expect((await service.call('POST', `/api/resume/${id}`)).status).toBe(200)
    await confirmed()
    await until('new tool calls', toolCalls, (rows) => rows.length > before.length + 1)
    await until('its line about the resume', run.stdout, (text) => text.includes('is resumed and continues'))

    run.child.kill('SIGINT')
    expect(await run.exited, run.stderr()).toBe(0)
    expect(run.stdout()).toMatch(/^Fleet {7}1 agent, /m)
    expect(run.stdout().replaceAll('\n', '')).not.toMatch(/\p{Cc}/u)
  })

  test('continues without decoys if its key may not create them', async () => {
    const created = await service.call<{ key: string }>('POST', '/api/keys', {
      body: { scope: 'agent', name: 'demo fleet', instances: ['demo-*'] },
    })
    const args = ['simulate', '--url', service.baseUrl, '--agents', '2', '--duration', '60', '--speed', '40']
    const run = wardline(args, { WARDLINE_KEY: created.body.key })
    await until('its line about the decoys', run.stdout, (text) => text.includes('this key may not create decoys'))
    run.child.kill('SIGINT')
    expect(await run.exited, run.stderr()).toBe(0)
    expect(run.stdout()).toContain('not available: the service did not respond, or the key lacks permission')
  })

  test('fails with advice if it can reach no service', async () => {
    const cases = [
      { url: service.baseUrl, env: { WARDLINE_KEY: 'wrong' }, advice: 'Give a valid key' },
      { url: 'http://127.0.0.1:9', env: { WARDLINE_KEY: 'wrong' }, advice: 'Start the service first' },
    ]
    const runs = cases.map(({ url, env }) => wardline(['simulate', '--url', url, '--duration', '1'], env))
    expect(await Promise.all(runs.map((run) => run.exited))).toEqual([3, 4])
    for (const [index, { advice }] of cases.entries()) expect(runs[index]!.stderr()).toContain(advice)
  })
})

describe('wardline serve --demo', () => {
  test.skipIf(isExternal)('runs twenty agents with the service and stops with it', async () => {
    const key = newApiKey()
    const baseUrl = `http://127.0.0.1:${await freePort()}`
    const env = { WARDLINE_DATA_DIR: newDataDir(), WARDLINE_API_KEY: key }
    // With a database, the demo brings no history: history.test.ts and the browser's demo.test.ts test that.
    const before = await startService({ env })
    await before.terminate()
    const run = wardline(['serve', '--demo'], { ...env, PORT: new URL(baseUrl).port })
    const readFleet = async () => {
      const answer = await fetch(`${baseUrl}/api/status`, { headers: { 'x-monitor-key': key } }).catch(() => undefined)
      return answer?.ok ? ((await answer.json()) as StatusView).instances : []
    }
    const instances = await until('twenty agents', readFleet, (fleet) => fleet.length >= 20)
    expect(instances.every(({ id, status }) => id.startsWith('demo-') && status === 'active')).toBe(true)
    await until('a first line of the story', run.stdout, (text) => text.includes('A decoy is planted'))
    const { attestations } = (await (await fetch(`${baseUrl}/api/public/trust`)).json()) as TrustView
    expect(attestations).toEqual([])
    for (const place of [`${baseUrl}/docs`, `curl -N ${baseUrl}/api/stream`, `${baseUrl}/api/kill/demo-`]) {
      expect(run.stdout()).toContain(place)
    }
    expect(run.stdout() + run.stderr()).not.toContain(key)
    run.child.kill('SIGTERM')
    const late = until(
      'the end',
      () => run.child.exitCode,
      (code) => code !== null,
    )
    expect(await late, run.stderr()).toBe(0)
  })
})
