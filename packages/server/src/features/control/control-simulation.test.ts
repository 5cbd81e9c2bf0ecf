import type { ControlMessage } from '@wardline/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { effort } from '../../../../../test-servers/effort.ts'
import { seededChoices } from '../../../../../test-servers/seeded-draws.ts'
import { manualClock } from '../../testing/clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { verifyAudit } from '../audit/audit.ts'

const agentsOfRound = 40
const rounds = effort(1, 250)
const steps = 20
const stepMs = 15_000
const dayMs = 86_400_000

/** State of an agent that follows the protocol: only a higher version counts, in whatever order messages arrive. */
interface Agent {
  id: string
  version: number
  suspended: boolean
  /** State that the service must report. */
  expected: { version: number; suspended: boolean }
  /** Real time of the last heartbeat, unaffected by clock changes. */
  lastBeat: number
  isDead: boolean
}

async function offlineReports(service: TestService): Promise<string[]> {
  const { body } = await service.call<{ events: { instance_id: string }[] }>(
    'GET',
    '/api/events?event_type=instance_offline&limit=1000',
  )
  return body.events.map(({ instance_id }) => instance_id).reverse()
}

async function simulate(seed: number): Promise<void> {
  const random = seededChoices(seed)
  const clock = manualClock()
  await using first = await openTestService({ clock })
  // Only PostgreSQL can be shared by several processes.
  await using second = first.deps.database.isShared
    ? await openTestService({ clock, dataDir: first.deps.config.dataDir })
    : undefined
  const processes = second ? [first, second] : [first]
  const agents: Agent[] = Array.from({ length: agentsOfRound }, (_, n) => ({
    id: `agent-${n}`,
    version: 0,
    suspended: false,
    expected: { version: 0, suspended: false },
    lastBeat: 0,
    isDead: false,
  }))
  const byId = new Map(agents.map((agent) => [agent.id, agent]))
  const underway: ControlMessage[] = []
  for (const { deps } of processes) deps.bus.onControl((message) => underway.push(message))
  let changes = 0
  let reported = 0

  async function beat(agent: Agent): Promise<void> {
    const body = { instance_id: agent.id, name: agent.id, control_version: agent.version }
    const { status, text } = await random.pick(processes).call('POST', '/api/heartbeat', { body })
    expect(status, text).toBe(200)
    agent.lastBeat = clock.monotonic()
  }

  /** Drops, duplicates and reorders messages. */
  function deliver(): void {
    for (let left = random.between(0, underway.length); left > 0; left--) {
      const message = random.pick(underway)
      if (random.chance(0.7)) underway.splice(underway.indexOf(message), 1)
      const agent = byId.get(message.instance_id)!
      if (message.version <= agent.version) continue
      Object.assign(agent, { version: message.version, suspended: message.action === 'suspend' })
    }
  }

  async function poll(agent: Agent): Promise<void> {
    const { body, headers } = await random
      .pick(processes)
      .call<{ suspended: boolean }>('GET', `/api/instances/${agent.id}/status`)
    expect({ suspended: body.suspended, etag: headers.etag }, agent.id).toEqual({
      suspended: agent.expected.suspended,
      etag: `W/"${agent.expected.version}"`,
    })
    Object.assign(agent, agent.expected)
  }

  async function change(agent: Agent): Promise<void> {
    const suspend = random.chance(0.6)
    const path = `/api/${suspend ? 'kill' : 'resume'}/${agent.id}`
    const { status } = await random.pick(processes).call('POST', path, suspend ? { body: { reason: 'simulated' } } : {})
    expect(status).toBe(suspend === agent.expected.suspended ? 400 : 200)
    if (status !== 200) return
    agent.expected = { version: agent.expected.version + 1, suspended: suspend }
    changes += 1
  }

  for (const agent of agents) await beat(agent)
  for (let step = 0; step < steps; step++) {
    clock.advance(stepMs)
    if (random.chance(0.15)) clock.jump(random.pick([-1, 1]) * random.between(1_000, dayMs))
    if (step === steps / 2) for (const agent of agents) agent.isDead = random.chance(0.1)
    for (const agent of agents) {
      if (!agent.isDead && clock.monotonic() - agent.lastBeat >= 60_000 - stepMs) await beat(agent)
      if (random.chance(0.15)) await change(agent)
      if (random.chance(0.1)) await poll(agent)
    }
    deliver()
    for (const { services } of processes) if (random.chance(0.5)) await services.scout.sweep()
    const silent = await offlineReports(first)
    for (const id of silent.slice(reported)) {
      expect(clock.monotonic() - byId.get(id)!.lastBeat, `silence of ${id}`).toBeGreaterThan(90_000)
    }
    reported = silent.length
  }

  for (const agent of agents) {
    await poll(agent)
    expect({ version: agent.version, suspended: agent.suspended }).toEqual(agent.expected)
  }
  expect(await verifyAudit(first.deps.database)).toMatchObject({ ok: true, count: changes })
}

// Lost messages, two processes and clock jumps must neither lift a suspension nor report a live agent as silent.
test(`${agentsOfRound * rounds} schedules of kills, messages and clock jumps lose no state and report no false silence`, {
  timeout: effort(300_000, 3_600_000),
}, async () => {
  const seed = fc.sample(fc.integer({ min: 1, max: 2 ** 31 }), 1)[0]!
  process.stdout.write(`control simulation: seed ${seed}, ${rounds} rounds of ${agentsOfRound} schedules\n`)
  for (let round = 0; round < rounds; round++) await simulate(seed + round)
})
