import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { runCommand } from './command.ts'
import { createKey, newInstance, unique } from './fleet.ts'
import { endWithTests } from './left-behind.ts'
import { isExternal, needsOwnProcess, type Service, startService, until } from './service.ts'

interface Firing {
  seq: number
  event_id: string
  instance_id: string
  responses: { action: string; result: string }[]
}
interface Suspension {
  rule_id: string | null
  event_id: string | null
  reason: string
  acknowledged_at: string | null
}

const rule = (prefix: string, more: object = {}) => ({
  title: 'Three calls in a minute',
  severity: 'critical',
  detection: { call: { event_type: 'tool_call', instance_id: `${prefix}*` }, condition: 'call' },
  correlation: { type: 'event_count', 'group-by': ['instance_id'], timespan: '1m', condition: { gte: 3 } },
  response: [{ action: 'alert' }, { action: 'suspend' }],
  tests: {
    match: [Array.from({ length: 3 }, () => ({ event_type: 'tool_call', instance_id: `${prefix}1` }))],
    no_match: [[{ event_type: 'tool_call', instance_id: `${prefix}1` }]],
  },
  ...more,
})
const firingsOf = async (service: Service, id: string) =>
  (await service.call<{ firings: Firing[] }>('GET', `/api/rules/${id}/firings?limit=200`)).body.firings
const suspensionsOf = async (service: Service, id: string) =>
  (await service.call<{ suspensions: Suspension[] }>('GET', `/api/instances/${id}/suspensions`)).body.suspensions
const call = (service: Service, instance_id: string) =>
  service.call('POST', '/api/events', {
    body: { severity: 'info', source: 'test', event_type: 'tool_call', description: 'A call', instance_id },
  })

const env = { WARDLINE_AUTO_SUSPEND_PER_MINUTE: '10000', WARDLINE_AUTO_SUSPEND_FLEET_PERCENT: '100' }

describe('a rule', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService({ env })
  })
  afterAll(() => service?.stop())

  test('suspends an agent of the SDK, which confirms it', async () => {
    const prefix = unique('sdk').slice(0, 14)
    const { body } = await service.call<{ id: string }>('POST', '/api/rules', {
      body: rule(prefix, { mode: 'enforce' }),
    })
    const key = await createKey(service, { scope: 'agent', instances: [`${prefix}-*`] })
    const program = fileURLToPath(new URL('./sdk-fleet.js', import.meta.url))
    const child = spawn(process.execPath, ['--conditions=wardline-source', program, service.baseUrl, prefix, '1'], {
      env: { PATH: process.env.PATH ?? '', WARDLINE_KEY: key },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    endWithTests(child)
    onTestFinished(() => void child.kill('SIGKILL'))
    const [suspension] = await until(
      'the agent to confirm its suspension',
      () => suspensionsOf(service, `${prefix}-0`).catch(() => []),
      (found) => (found ?? [])[0]?.acknowledged_at != null,
    )
    const [firing] = await firingsOf(service, body.id)
    expect(suspension).toMatchObject({ rule_id: body.id, event_id: firing!.event_id })
    expect(suspension!.reason).toContain(`(rule ${body.id}, version 1, event ${firing!.event_id})`)
    expect(firing!.responses).toMatchObject([
      { action: 'alert', result: 'done' },
      { action: 'suspend', result: 'done' },
    ])
  })

  test.skipIf(isExternal)('is stored, switched and removed by the command line', async () => {
    const file = join(service.dataDir, 'rule.json')
    const prefix = unique('cli').slice(0, 14)
    writeFileSync(file, JSON.stringify(rule(prefix)))
    const wardline = async (...args: string[]) => {
      const { code, stdout, stderr } = await runCommand(['rules', ...args, '--url', service.baseUrl], {
        WARDLINE_KEY: service.key,
      })
      return { code, stdout, stderr }
    }
    const added = await wardline('add', file)
    expect(added.stdout).toMatch(/^Rule [0-9a-f-]{36} is stored: version 1, mode observe\.\n$/)
    const [id = ''] = /[0-9a-f-]{36}/.exec(added.stdout) ?? []
    expect((await wardline('enable', id)).stdout).toBe(`Rule ${id} is in mode enforce.\n`)
    expect((await wardline('alert', id)).stdout).toBe(`Rule ${id} is in mode alert.\n`)
    expect((await wardline('list')).stdout).toMatch(new RegExp(`${id}\\s+alert\\s+1\\s+critical`))
    expect((await wardline('show', id)).stdout).toContain('"title":"Three calls in a minute"')
    expect((await wardline('firings', id)).stderr).toContain('did not fire')
    const pack = unique('pack').slice(0, 14)
    const packed = join(service.dataDir, 'packed.json')
    writeFileSync(packed, JSON.stringify(rule(prefix, { tags: [`pack.${pack}`, 'atlas.aml.t0012'] })))
    expect((await wardline('add', packed, '--replace', id)).code).toBe(0)
    expect((await wardline('observe', `pack.${pack}`)).stdout).toBe(
      `1 rule of pack.${pack} switched to mode observe, 0 in it before.\n`,
    )
    expect((await wardline('packs')).stdout).toMatch(new RegExp(`^pack\\.${pack}\\s+1\\s+1\\s+0\\s+0\\s+0\\s+-$`, 'm'))
    expect(JSON.parse((await wardline('packs', '--json')).stdout)).toContainEqual(
      expect.objectContaining({ name: pack, rules: [id], modes: { observe: 1, alert: 0, enforce: 0 } }),
    )
    const coverage = await wardline('coverage')
    expect(coverage.stdout).toMatch(
      /^Initial Access +AML\.T0012 +Valid Accounts +observe +0 +Three calls in a minute$/m,
    )
    expect(coverage.stdout).toMatch(/^Reconnaissance +AML\.T0006 +Active Scanning +- +- +-$/m)
    expect(coverage.stderr).toMatch(/^-- \d+ of 170 techniques of MITRE ATLAS 5\.6\.0 covered\n$/)
    expect((await wardline('enforce', 'pack.none')).stderr).toContain('No rule has the tag pack.none')
    const agent = await newInstance(service, prefix)
    for (let count = 0; count < 3; count += 1) await call(service, agent)
    // The service is younger than the default of seven days: no value counts as new before its first event.
    for (const of of [id, file]) {
      expect((await wardline('backtest', of)).stdout).toMatch(
        /^The rule would have fired 1 time on 1 agent in the \d+ \w+ of events that there are and suspended 1\.\n/,
      )
    }
    const { stdout } = await wardline('backtest', file, '--from', '1h', '--json')
    expect(JSON.parse(stdout)).toMatchObject({ firings: 1, samples: [{ group: [agent], events: [{}, {}, {}] }] })
    expect((await wardline('delete', id)).stdout).toContain('is deleted')
    expect(await wardline('show', id)).toMatchObject({ code: 2, stderr: expect.stringContaining('No rule with id') })
  })

  test('reports how many firings of an agent were counted but not stored', async () => {
    const instance_id = await newInstance(service, unique('flood').slice(0, 14))
    const { body } = await service.call<{ id: string }>('POST', '/api/rules', {
      body: {
        title: 'Every call',
        severity: 'info',
        detection: { call: { event_type: 'tool_call', instance_id }, condition: 'call' },
      },
    })
    const event = { severity: 'info', source: 'test', event_type: 'tool_call', description: 'A call', instance_id }
    await service.call('POST', '/api/events/batch', { body: Array.from({ length: 200 }, () => event) })
    const wardline = (...args: string[]) =>
      runCommand(['rules', ...args, '--url', service.baseUrl], { WARDLINE_KEY: service.key })
    await until(
      'the list to name the rule',
      () => wardline('list'),
      ({ stderr }) =>
        new RegExp(`^Suppressed in 24 hours: \\d+ firings of rule ${body.id}, beyond 60 `, 'm').test(stderr),
    )
    expect((await wardline('firings', body.id)).stderr).toMatch(/^Suppressed in 7 days: \d+ firings, beyond 60 /)
    expect((await wardline('backtest', body.id, '--from', '1h')).stderr).toMatch(
      /\d+ more firings would have been counted, not stored\./,
    )
  })
})

describe.skipIf(isExternal)('a crash between event, firing and response', () => {
  test('neither loses nor duplicates a response', async () => {
    const service = await startService({ env })
    const prefix = unique('crash').slice(0, 14)
    const { body } = await service.call<{ id: string }>('POST', '/api/rules', {
      body: rule(prefix, { mode: 'enforce' }),
    })
    await until(
      'the runner to know the rule',
      async () => {
        await call(service, `${prefix}-first`)
        return firingsOf(service, body.id)
      },
      (found) => found.length > 0,
    )
    for (const round of [0, 1, 2, 3]) {
      const ids = await Promise.all(Array.from({ length: 5 }, () => newInstance(service, prefix)))
      const reported = ids.flatMap((id) => [1, 2, 3].map(() => call(service, id).catch(() => undefined)))
      if (round === 0) await Promise.all(reported)
      else await Promise.race(reported)
      await service.kill9()
      await Promise.all(reported)
      await service.start()
      // Reports again what was not stored before the crash, like agents.
      for (const id of ids) for (let count = 0; count < 3; count += 1) await call(service, id)
      await until(
        'every agent to be suspended',
        () => Promise.all(ids.map((id) => suspensionsOf(service, id))),
        (found) => found.every((list) => list.length > 0),
      )
      for (const id of ids) expect(await suspensionsOf(service, id), id).toHaveLength(1)
    }
    const firings = await firingsOf(service, body.id)
    expect(new Set(firings.map(({ seq }) => seq)).size).toBe(firings.length)
    const matched = await service.call<{ events: { metadata: { events: string[] } }[] }>(
      'GET',
      '/api/events?event_type=rule_matched&limit=1000',
    )
    expect(matched.body.events).toHaveLength(firings.length)
    await service.stop()
  })
})

if (isExternal) process.stdout.write(`The crashes are left out: ${needsOwnProcess}\n`)
