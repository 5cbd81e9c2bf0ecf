import type { InstanceDetail } from '@wardline/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { effort } from '../../../../../test-servers/effort.ts'
import { seededChoices } from '../../../../../test-servers/seeded-draws.ts'
import { manualClock } from '../../testing/clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { indexEvents } from '../events/event-index.ts'
import { type StateFacts, suspensionState } from '../suspensions/states.ts'

const agentsOfRound = 20
const rounds = effort(1, 500)
const steps = 30
const stepMs = 4_000
const quietStepMs = 10_000
/** Default silence: time without an event after the acknowledgement. */
const silenceMs = 30_000
const jumpMs = 3_600_000

const behaviours = ['obeys', 'obeys', 'finishes its call', 'goes on', 'ignores', 'is plain', 'is gone'] as const

/** The truth about an agent. Times are monotonic, so clock jumps do not change them. */
interface Agent {
  id: string
  behaviour: (typeof behaviours)[number]
  version: number
  isSuspended: boolean
  /** Version of the current suspension that the agent knows, and since when. */
  known: { version: number; at: number } | undefined
  /** Time of the first acknowledgement that the service accepted, by version. */
  acknowledged: Map<number, number>
  /** Times of events that the service accepted. */
  events: number[]
  /** Last version that the service showed as proven. */
  proven: number
}

/** Whether the agent keeps working while suspended. */
const worksOn = ({ behaviour }: Pick<Agent, 'behaviour'>) => behaviour === 'goes on' || behaviour === 'ignores'

/** Resolves with the number of suspensions that are proven at the end. */
async function simulate(seed: number): Promise<number> {
  const random = seededChoices(seed)
  const clock = manualClock()
  // Keeps the database open while the other processes crash.
  await using holder = await openTestService({ clock })
  const open = () => openTestService({ clock, dataDir: holder.deps.config.dataDir })
  const processes: TestService[] = [await open()]
  if (holder.deps.database.isShared) processes.push(await open())
  const agents: Agent[] = Array.from({ length: agentsOfRound }, (_, n) => ({
    id: `agent-${n}`,
    behaviour: random.pick(behaviours),
    version: 0,
    isSuspended: false,
    known: undefined,
    acknowledged: new Map(),
    events: [],
    proven: 0,
  }))
  const anyone = () => random.pick(processes)
  let wasSetBack = false

  async function beat(agent: Agent): Promise<void> {
    const control = agent.behaviour === 'is plain' ? {} : { control_version: agent.known?.version ?? 0 }
    const body = { instance_id: agent.id, name: agent.id, ...control }
    const { status, text } = await anyone().call('POST', '/api/heartbeat', { body })
    expect(status, text).toBe(200)
    if (agent.behaviour !== 'is plain') noteAcknowledged(agent)
  }

  function noteAcknowledged({ known, acknowledged }: Agent): void {
    if (known && !acknowledged.has(known.version)) acknowledged.set(known.version, clock.monotonic())
  }

  async function change(agent: Agent): Promise<void> {
    const path = `/api/${agent.isSuspended ? 'resume' : 'kill'}/${agent.id}`
    const body = agent.isSuspended ? undefined : { reason: 'simulated' }
    const { status, text } = await anyone().call('POST', path, { body })
    expect(status, text).toBe(200)
    agent.isSuspended = !agent.isSuspended
    // The service continues above a version that the agent claimed, so the number is read.
    const instance = await holder.call<InstanceDetail>('GET', `/api/instances/${agent.id}`)
    agent.version = instance.body.control.version
    agent.known = undefined
  }

  async function poll(agent: Agent): Promise<void> {
    const { body } = await anyone().call<{ suspended: boolean }>('GET', `/api/instances/${agent.id}/status`)
    expect(body.suspended, `${agent.id} of seed ${seed}`).toBe(agent.isSuspended)
    if (agent.isSuspended && agent.behaviour !== 'ignores') {
      agent.known ??= { version: agent.version, at: clock.monotonic() }
    }
  }

  /** Sends an acknowledgement, which may be lost, sent twice or name a version that does not exist. */
  async function acknowledge(agent: Agent): Promise<void> {
    if (!agent.known || agent.behaviour === 'is plain') return
    const send = (version: number) => anyone().call('POST', `/api/instances/${agent.id}/ack`, { body: { version } })
    if (random.chance(0.1)) expect((await send(agent.version + 7)).status).toBe(400)
    for (let copies = random.pick([0, 1, 1, 2]); copies > 0; copies--) {
      expect((await send(agent.known.version)).status).toBe(200)
      noteAcknowledged(agent)
    }
  }

  function isActive({ behaviour, known }: Agent): boolean {
    if (worksOn({ behaviour })) return random.chance(0.2)
    if (!known) return random.chance(0.5)
    return behaviour === 'finishes its call' && clock.monotonic() - known.at <= stepMs && random.chance(0.5)
  }

  async function report(agent: Agent): Promise<void> {
    const body = {
      severity: 'info',
      source: agent.id,
      event_type: 'tool_call',
      description: 'x',
      instance_id: agent.id,
    }
    const { status } = await anyone().call('POST', '/api/events', { body })
    expect(status).toBe(201)
    agent.events.push(clock.monotonic())
  }

  /** Resolves with the newest suspension of each agent and its state. */
  async function suspensions() {
    const rows = await holder.rows<{ instance_id: string } & StateFacts & { version: number }>(
      'select * from suspensions order by version',
    )
    return new Map(rows.map((row) => [row.instance_id, { ...row, state: suspensionState(row) }]))
  }

  /** Asserts that the states the service shows agree with the truth. */
  async function assertTrue(): Promise<void> {
    const shown = await suspensions()
    for (const agent of agents) {
      const suspension = shown.get(agent.id)
      if (suspension?.version !== agent.version) continue
      const acknowledgedAt = agent.acknowledged.get(agent.version)
      const what = `${agent.id}, ${agent.behaviour}, seed ${seed}: ${JSON.stringify(suspension)}`
      if (suspension.state === 'confirmed' || suspension.state === 'proven') expect(acknowledgedAt, what).toBeDefined()
      // An event after the proof is only noticed by the next run of the watch, so each proof is checked once.
      if (suspension.state !== 'proven' || agent.proven === agent.version) continue
      agent.proven = agent.version
      const last = Math.max(acknowledgedAt!, ...agent.events)
      expect(clock.monotonic() - last, what).toBeGreaterThanOrEqual(silenceMs)
      expect(agent.behaviour, what).not.toBe('is plain')
    }
  }

  async function runJobs(service: TestService): Promise<void> {
    await service.services.suspensionFacts.write()
    await indexEvents(service.deps.database)
    await service.services.suspensionWatch.run()
  }

  async function step(isQuiet: boolean): Promise<void> {
    clock.advance(isQuiet ? quietStepMs : stepMs)
    if (!isQuiet && random.chance(0.05)) {
      const direction = random.pick([-1, 1])
      clock.jump(direction * jumpMs)
      wasSetBack ||= direction < 0
    }
    for (const agent of agents) {
      if (agent.behaviour === 'is gone') continue
      if (random.chance(0.1)) await beat(agent)
      if (!isQuiet && random.chance(0.06)) await change(agent)
      if (agent.isSuspended && random.chance(0.4)) await poll(agent)
      if (random.chance(0.7)) await acknowledge(agent)
      if (isActive(agent)) await report(agent)
    }
    // A process that skips its jobs stands for one that is frozen for a while.
    for (const service of processes) if (isQuiet || random.chance(0.6)) await runJobs(service)
    if (!isQuiet && random.chance(0.1)) {
      // A crash: facts in memory that were not yet written are lost.
      await processes.shift()![Symbol.asyncDispose]()
      processes.push(await open())
    }
    await assertTrue()
  }

  for (const agent of agents) await beat(agent)
  for (let count = 0; count < steps; count++) await step(false)
  for (const agent of agents) {
    if (!agent.isSuspended && agent.behaviour !== 'is gone') await change(agent)
  }
  // Longer than every wait together: grace, silence and the delay after a clock jump.
  for (let passed = 0; passed < 5 * 60_000; passed += quietStepMs) {
    // Otherwise about one in a thousand would send no event by chance and really be silent.
    if (passed === 3 * 60_000) for (const agent of agents) if (worksOn(agent)) await report(agent)
    await step(true)
  }

  let proven = 0
  const shown = await suspensions()
  for (const agent of agents) {
    const suspension = shown.get(agent.id)
    // Times written before the clock was set back are in the future for a while and prove nothing until then.
    if (!agent.isSuspended || !suspension || wasSetBack) continue
    const what = `${agent.id}, ${agent.behaviour}, seed ${seed}: ${JSON.stringify(suspension)}`
    if (worksOn(agent)) expect(suspension.state, what).toBe('violated')
    if (agent.behaviour === 'obeys' || agent.behaviour === 'finishes its call') {
      // After a forward clock jump, the agent's last events may appear to come after the grace.
      expect(['proven', 'violated'], what).toContain(suspension.state)
      proven += suspension.state === 'proven' ? 1 : 0
    }
    if (agent.behaviour === 'is plain') expect(['quiet', 'violated'], what).toContain(suspension.state)
  }
  for (const service of processes) await service[Symbol.asyncDispose]()
  return proven
}

// Lost and repeated messages, crashes, frozen processes and clock jumps must neither lose a suspension nor make a
// running agent look stopped.
test(`${agentsOfRound * rounds} random schedules lose no suspension and show none as proven without acknowledgement and silence`, async () => {
  const seed = fc.sample(fc.integer({ min: 1, max: 2 ** 31 }), 1)[0]!
  process.stdout.write(`containment simulation: seed ${seed}, ${rounds} rounds of ${agentsOfRound} schedules\n`)
  let proven = 0
  for (let round = 0; round < rounds; round++) proven += await simulate(seed + round)
  process.stdout.write(`containment simulation: ${proven} proven in the end\n`)
})
