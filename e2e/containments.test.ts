import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runCommand } from './command.ts'
import { expectRefusal } from './expectations.ts'
import { beat, createKey, unique } from './fleet.ts'
import { isExternal, needsOwnProcess, type Service, startService, until } from './service.ts'
import type { ControlMessage } from './shapes.ts'

interface Containment {
  id: string
  state: string
  requested: number
  changed: number
  skipped: number
  confirmed: number
  missing_count: number
  missing: string[]
}

const contain = (service: Service, body: object) =>
  service.call<Containment>('POST', '/api/containments', { body: { reason: 'leak', ...body } })
const view = async (service: Service, id: string) =>
  (await service.call<Containment>('GET', `/api/containments/${id}`)).body
const register = async (service: Service, ids: readonly string[], tag: string) => {
  for (let at = 0; at < ids.length; at += 50) {
    await Promise.all(
      ids.slice(at, at + 50).map((id) =>
        service.call('POST', '/api/heartbeat', {
          body: { instance_id: id, name: id, tags: [tag], control_version: 0 },
        }),
      ),
    )
  }
}

describe('a fleet stop', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService()
  })
  afterAll(() => service?.stop())

  test('reaches agents that listen and agents that poll, and counts acknowledgements', async () => {
    const tag = unique('team')
    const ids = [unique('s'), unique('s'), unique('s')]
    await register(service, ids, tag)
    const stream = await service.openStream(`/api/instances/${ids[0]}/control`, { key: service.key })
    await stream.next(() => true)
    const { status, body } = await contain(service, {
      action: 'suspend',
      selector: { tags: [tag] },
      confirm: 'suspend 3 agents',
    })
    expect(status).toBe(201)
    const { json } = await stream.next<ControlMessage>(({ action }) => action === 'suspend')
    expect(json).toMatchObject({ instance_id: ids[0], reason: 'leak', version: 1 })
    await service.call('POST', `/api/instances/${ids[0]}/ack`, { body: { version: 1 } })
    await until(
      'the stop',
      () => view(service, body.id),
      ({ confirmed, changed }) => confirmed === 1 && changed === 3,
    )
    for (const id of ids) {
      const poll = await service.call<{ suspended: boolean }>('GET', `/api/instances/${id}/status`)
      expect(poll.body.suspended).toBe(true)
    }
    expect((await view(service, body.id)).missing).toEqual(ids.slice(1).toSorted())
    stream.close()
  })

  test('by the command line shows the plan, asks for the number, and reports the result', async () => {
    const tag = unique('team')
    const ids = [unique('c'), unique('c')]
    await register(service, ids, tag)
    const run = async (...args: string[]) => {
      const { code, output } = await runCommand(args, { WARDLINE_URL: service.baseUrl, WARDLINE_KEY: service.key })
      return { code, output }
    }
    const plan = await run('contain', '--tag', tag, '--reason', 'drift', '--dry-run')
    expect(plan.output).toContain('Would suspend 2 agents: 0 by control stream, 2 by poll, 0 unknown.')
    const unasked = await run('contain', '--tag', tag, '--reason', 'drift')
    expect(unasked).toMatchObject({ code: 64, output: expect.stringContaining('--confirm "suspend 2 agents"') })
    const wrong = await run('contain', '--tag', tag, '--reason', 'drift', '--confirm', 'suspend 3 agents')
    expect(wrong).toMatchObject({ code: 2, output: expect.stringContaining('matches 2 agents now') })
    const done = await run('contain', '--tag', tag, '--reason', 'drift', '--confirm', 'suspend 2 agents', '--no-wait')
    expect(done).toMatchObject({ code: 0, output: expect.stringContaining('suspend 2 agents') })
    const id = /Containment (\S+):/.exec(done.output)![1]!
    await until(
      'the stop',
      () => view(service, id),
      ({ changed }) => changed === 2,
    )
    expect((await run('containments', id)).output).toContain(`Missing: ${ids.toSorted().join(', ')}`)
    expect((await run('containments')).output).toContain('drift')
  })

  test('is refused to keys of agents and viewers', async () => {
    const id = unique('r')
    await beat(service, id)
    for (const input of [
      { scope: 'viewer', name: 'v' },
      { scope: 'agent', instances: [id] },
    ] as const) {
      const key = await createKey(service, input as never)
      const body = { action: 'suspend', selector: { all: true }, reason: 'x', confirm: 'suspend 1 agent' }
      expectRefusal(await service.call('POST', '/api/containments', { body, key }), 403)
    }
  })
})

describe.skipIf(isExternal)(`a process that is killed during it (left out: ${needsOwnProcess})`, () => {
  const count = 1_000
  let service: Service
  beforeAll(async () => {
    service = await startService({ env: {} })
  })
  afterAll(() => service?.stop())

  test('continues with every agent once, after the restart', async () => {
    const ids = Array.from({ length: count }, (_, n) => `crash-${n}`)
    await register(service, ids, 'fleet:crash')
    const { body } = await contain(service, {
      action: 'suspend',
      selector: { tags: ['fleet:crash'] },
      confirm: `suspend ${count} agents`,
    })
    expect(body.requested).toBe(count)
    await service.kill9()
    await service.start()
    const found = await until(
      'the rest of the stop',
      () => view(service, body.id),
      ({ changed }) => changed === count,
    )
    expect(found).toMatchObject({ requested: count, skipped: 0, missing_count: count })
    const versions = new Map<number, number>()
    for (let after = ''; ; ) {
      const { body: page } = await service.call<{
        instances: { id: string; status: string; control: { version: number } }[]
        next: string | null
      }>('GET', `/api/instances?limit=1000${after}`)
      for (const { status, control } of page.instances) {
        expect(status).toBe('suspended')
        versions.set(control.version, (versions.get(control.version) ?? 0) + 1)
      }
      if (page.next === null) break
      after = `&after=${page.next}`
    }
    expect([...versions]).toEqual([[1, count]])
    const audited = new Set<string>()
    let entries = 0
    for (let before = ''; ; ) {
      const { body: page } = await service.call<{ changes: { instance_id: string }[]; next: string | null }>(
        'GET',
        `/api/control-changes?limit=1000${before}`,
      )
      for (const { instance_id } of page.changes) audited.add(instance_id)
      entries += page.changes.length
      if (page.next === null) break
      before = `&before=${page.next}`
    }
    expect([entries, audited.size]).toEqual([count, count])
  })
})
