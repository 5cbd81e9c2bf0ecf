import { randomUUID } from 'node:crypto'
import type { ApprovalDecision } from '@wardline/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { effort } from '../../../../../test-servers/effort.ts'
import { seededChoices } from '../../../../../test-servers/seeded-draws.ts'
import { minuteMs } from '../../clock.ts'
import { AppError } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import { uuidV7 } from '../../ids.ts'
import { askingCall, hashOf } from '../../testing/approvals.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { localActor } from '../audit/audit.ts'
import { resumeInstance, suspendInstance } from '../control/kill-switch.ts'
import { type AllowanceRow, type ApprovalRow, approversOf } from './approval-rules.ts'
import { closeExpired, decideApproval, revokeAllowance } from './decisions.ts'
import { requestApproval } from './requests.ts'

const schedules = effort(100, 10_000)
/** Schedules that run at the same time, each with an agent, on one clock. More would wait too long for PostgreSQL's connections. */
const atOnce = 25
/** Schedules of a database: a larger one would be slow to check. */
const ofDatabase = 500
const steps = 14
/** People and agents mostly act on the last few requests. */
const recent = 2

interface Asked {
  attempt: string
  session_id: string
  tool: string
  args_sha256: string
}

/** What the world knows of one agent, from the answers that arrived. */
interface Schedule {
  id: string
  random: ReturnType<typeof seededChoices>
  asked: Asked[]
  approvals: Set<string>
  /** Answers `granted`, by attempt. */
  granted: Map<string, Set<string>>
  /** The call of such an attempt, as it asked. */
  grantedCalls: Map<string, object>
  /** Operators whose approval was accepted, by approval. */
  approvers: Map<string, Set<string>>
  denied: Set<string>
  /** Final decisions that were accepted, by approval. */
  decisions: Map<string, number>
  /** When the rule of a request was first known to need two operators. */
  needsTwoSince: Map<string, number>
  allowances: Map<string, { maxCalls: number; endsAt: number }>
  suspensions: { from: number; to: number }[]
  isSuspended: boolean
}

const principalOf = (keyId: string, owner: string, scope: Principal['scope']): Principal => ({
  ...{ keyId, name: keyId, scope, instances: null },
  registers: { owner, max: null, tags: null },
})
const agentKey = principalOf('agent-key', 'agent-key', 'agent')
/** The second and third are keys of one rotation. */
const operators = [
  principalOf('op-1', 'op-1', 'operator'),
  principalOf('op-2', 'op-2', 'operator'),
  principalOf('op-2b', 'op-2', 'operator'),
]

class Simulation {
  readonly #service: TestService
  #codes: Record<string, number> = {}

  constructor(service: TestService) {
    this.#service = service
  }

  get codes(): Record<string, number> {
    return this.#codes
  }

  /** Resolves with the answer, or undefined for a refusal, which is counted. */
  async #try<Answer>(work: Promise<Answer>): Promise<Answer | undefined> {
    try {
      return await work
    } catch (fault) {
      if (!(fault instanceof AppError) || fault.code === 'internal' || fault.code === 'database') throw fault
      this.#codes[fault.code] = (this.#codes[fault.code] ?? 0) + 1
      return undefined
    }
  }

  /** Asks, by an earlier attempt or a new one, sometimes with a part that is forged. The answer may be lost. */
  async ask(schedule: Schedule): Promise<void> {
    const { random, id, asked } = schedule
    const isRepeated = asked.length > 0 && random.chance(0.6)
    const fresh: Asked = {
      attempt: randomUUID(),
      session_id: random.pick(['session-1', 'session-2']),
      tool: random.pick(['send', 'delete']),
      args_sha256: hashOf(random.pick([1, 2])),
    }
    const call = isRepeated ? random.pick(random.chance(0.8) ? asked.slice(-recent) : asked) : fresh
    if (!isRepeated) asked.push(call)
    const forged = random.chance(0.1)
      ? random.pick([
          { session_id: 'session-9' },
          { args_sha256: hashOf(9) },
          { tool: 'other' },
          { attempt: randomUUID() },
        ])
      : {}
    const approvals = random.pick([1, 1, 1, 2] as const)
    const body = askingCall({ ...call, ...forged, approvals, wait_seconds: random.pick([60, 600, 3_600]) })
    const now = this.#service.clock.now()
    const answer = await this.#try(
      requestApproval(this.#service.deps, this.#service.services, { instanceId: id, body, principal: agentKey }),
    )
    if (!answer) return
    schedule.approvals.add(answer.id)
    if (approvals === 2 && answer.state === 'pending' && !schedule.needsTwoSince.has(answer.id)) {
      schedule.needsTwoSince.set(answer.id, now)
    }
    const isLost = random.chance(0.2)
    if (answer.state !== 'granted' || isLost) return
    const known = schedule.granted.get(body.attempt) ?? new Set()
    schedule.granted.set(body.attempt, known.add(answer.id))
    const { session_id, tool, args_sha256 } = body
    schedule.grantedCalls.set(body.attempt, { session_id, tool, args_sha256 })
  }

  async decide(schedule: Schedule): Promise<void> {
    const { random, approvals } = schedule
    const isForged = approvals.size === 0 || random.chance(0.05)
    const id = isForged ? uuidV7(this.#service.clock.now()) : random.pick([...approvals].slice(-recent))
    const principal = random.chance(0.1) ? agentKey : random.pick(operators)
    const isAllowing = random.chance(0.2)
    const body: ApprovalDecision = random.chance(0.75)
      ? {
          decision: 'approve',
          ...(isAllowing ? { for_minutes: random.pick([1, 20]), max_calls: random.pick([1, 2, 4]) } : {}),
        }
      : { decision: 'deny' }
    const now = this.#service.clock.now()
    const actor = { ...localActor('cli'), keyId: principal.keyId }
    const row = await this.#try(
      decideApproval(this.#service.deps, this.#service.services, id, body, { principal, actor }),
    )
    if (!row) return
    expect(principal, 'the key of the agent decided').not.toBe(agentKey)
    if (body.decision === 'approve') {
      const known = schedule.approvers.get(id) ?? new Set()
      schedule.approvers.set(id, known.add(principal.registers.owner))
    } else schedule.denied.add(id)
    if (row.state === 'pending') return
    schedule.decisions.set(id, (schedule.decisions.get(id) ?? 0) + 1)
    if (body.for_minutes !== undefined && row.allowance_id !== null) {
      const endsAt = now + body.for_minutes * minuteMs
      schedule.allowances.set(row.allowance_id, { maxCalls: body.max_calls!, endsAt })
    }
  }

  async revoke({ random, allowances }: Schedule): Promise<void> {
    const { deps, clock } = this.#service
    const [id] = allowances.size > 0 ? [random.pick([...allowances.keys()])] : [uuidV7(clock.now())]
    await this.#try(revokeAllowance(deps, id, { principal: operators[0]!, actor: localActor('cli') }))
  }

  async switchControl(schedule: Schedule): Promise<void> {
    const { deps, services, clock } = this.#service
    const target = { instanceId: schedule.id, actor: localActor('cli') }
    if (schedule.isSuspended) await resumeInstance(deps, services, target)
    else await suspendInstance(deps, services, { ...target, reason: 'simulated' })
    const last = schedule.suspensions.at(-1)
    if (schedule.isSuspended && last) last.to = clock.now()
    else schedule.suspensions.push({ from: clock.now(), to: Number.POSITIVE_INFINITY })
    schedule.isSuspended = !schedule.isSuspended
  }

  /** One step of a schedule: requests that are sent at the same time. */
  async step(schedule: Schedule): Promise<void> {
    const { random } = schedule
    const draws = Array.from({ length: random.pick([1, 1, 2, 3]) }, () => random.chance(0.55))
    const works = draws.map((isAsk) => (isAsk ? this.ask(schedule) : this.decide(schedule)))
    if (random.chance(schedule.isSuspended ? 0.5 : 0.04)) works.push(this.switchControl(schedule))
    if (random.chance(0.05)) works.push(this.revoke(schedule))
    await Promise.all(works)
  }
}

/** Checks all that was stored and answered of an agent. */
function check(schedule: Schedule, rows: readonly ApprovalRow[], allowances: readonly AllowanceRow[]): number {
  const byId = new Map(rows.map((row) => [row.id, row]))
  for (const [attempt, ids] of schedule.granted) {
    expect([...ids], 'an attempt was granted by several approvals').toHaveLength(1)
    const row = byId.get([...ids][0]!)!
    expect([row.state, row.attempt], 'another attempt has the approval').toEqual(['granted', attempt])
    expect(row, 'the approval is of another call').toMatchObject(schedule.grantedCalls.get(attempt)!)
  }
  // What one operator approved waits again once its rule needs two.
  for (const [id, count] of schedule.decisions) {
    expect(count, 'decided too often').toBeLessThanOrEqual(byId.get(id)!.needed)
  }
  const granted = rows.filter(({ state }) => state === 'granted')
  const attempts = granted.map(({ attempt }) => attempt)
  expect(new Set(attempts).size, 'an attempt took several approvals').toBe(attempts.length)
  const used = new Map<string, number>()
  for (const row of granted) {
    const at = row.granted_at!
    expect(schedule.denied.has(row.id), 'granted although denied').toBe(false)
    expect(at, 'granted after its end').toBeLessThan(row.expires_at)
    const isSuspended = schedule.suspensions.some(({ from, to }) => at > from && at < to)
    expect(isSuspended, 'granted while suspended').toBe(false)
    const accepted = schedule.approvers.get(row.id) ?? new Set()
    const stored = approversOf(row).map(([owner]) => owner)
    expect(new Set(stored), 'an approval that nobody gave').toEqual(accepted)
    const needsTwo = (schedule.needsTwoSince.get(row.id) ?? Number.POSITIVE_INFINITY) < at
    if (needsTwo) expect(stored.length, 'two operators are needed').toBe(2)
    if (stored.length >= row.needed) continue
    const allowance = schedule.allowances.get(row.allowance_id ?? '')
    expect(allowance, 'granted without a decision').toBeDefined()
    expect([row.needed, at < allowance!.endsAt], 'an allowance that does not hold').toEqual([1, true])
    used.set(row.allowance_id!, (used.get(row.allowance_id!) ?? 0) + 1)
  }
  for (const row of allowances) {
    // The call with which it was made is the first.
    expect(row.used, 'calls of an allowance').toBe((used.get(row.id) ?? 0) + 1)
    expect(row.used).toBeLessThanOrEqual(schedule.allowances.get(row.id)!.maxCalls)
    const tools = new Set(rows.filter(({ allowance_id }) => allowance_id === row.id).map(({ tool }) => tool))
    expect(tools, 'an allowance of another tool').toEqual(new Set([row.tool]))
  }
  return granted.length
}

async function simulate(service: TestService, seed: number, count: number) {
  const { clock, deps, services } = service
  const shared = seededChoices(seed)
  const all: Schedule[] = Array.from({ length: count }, (_, n) => ({
    id: `agent-${seed}-${n}`,
    random: seededChoices(seed + n + 1),
    asked: [],
    approvals: new Set(),
    granted: new Map(),
    grantedCalls: new Map(),
    approvers: new Map(),
    denied: new Set(),
    decisions: new Map(),
    needsTwoSince: new Map(),
    allowances: new Map(),
    suspensions: [],
    isSuspended: false,
  }))
  await Promise.all(
    all.map(({ id }) => service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })),
  )
  const simulation = new Simulation(service)
  for (let step = 0; step < steps; step++) {
    const works = all.map((schedule) => simulation.step(schedule))
    if (shared.chance(0.3)) works.push(closeExpired(deps, services))
    await Promise.all(works)
    clock.advance(shared.pick([1, 1, 1, 1_000, 1_000, 10_000, 30_000, 2 * minuteMs, 12 * minuteMs]))
  }
  const rows = Map.groupBy(
    await service.rows<ApprovalRow>(`select * from approvals where instance_id like 'agent-${seed}-%'`),
    ({ instance_id }) => instance_id,
  )
  const allowances = Map.groupBy(
    await service.rows<AllowanceRow>(`select * from allowances where instance_id like 'agent-${seed}-%'`),
    ({ instance_id }) => instance_id,
  )
  let granted = 0
  for (const schedule of all) granted += check(schedule, rows.get(schedule.id) ?? [], allowances.get(schedule.id) ?? [])
  return { granted, codes: simulation.codes }
}

test(`in ${schedules} schedules no call is granted twice, and none without the decisions that it needs`, async () => {
  const seed = fc.sample(fc.integer({ min: 1, max: 2 ** 30 }), 1)[0]!
  process.stdout.write(`approval simulation: seed ${seed}, ${schedules} schedules of ${steps} steps\n`)
  let granted = 0
  const codes: Record<string, number> = {}
  for (let done = 0; done < schedules; done += ofDatabase) {
    await using service = await openTestService()
    for (let start = done; start < Math.min(done + ofDatabase, schedules); start += atOnce) {
      const result = await simulate(service, seed + start, atOnce)
      granted += result.granted
      for (const [code, count] of Object.entries(result.codes)) codes[code] = (codes[code] ?? 0) + count
    }
  }
  process.stdout.write(`approval simulation: ${granted} grants, refusals ${JSON.stringify(codes)}\n`)
  expect(granted).toBeGreaterThan(schedules / 4)
})
