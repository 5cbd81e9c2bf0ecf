import { eventTypes } from '@wardline/contract'
import type { Statement } from '../../db/database.ts'
import { GroupCommit } from '../../db/group-commit.ts'
import { changeGuarded, type PreparedChange } from '../../db/guarded-change.ts'
import type { Deps } from '../../deps.ts'
import { localActor } from '../audit/audit.ts'
import {
  announceControl,
  heldBy,
  holdUntil,
  type KillSwitchParts,
  type PreparedControl,
  prepareControl,
} from '../control/kill-switch.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import type { EventToStore, Ingest } from '../events/ingest.ts'
import { type ControlRow, readControls } from '../instances/control-statements.ts'
import { onSuspend } from '../suspensions/holds.ts'
import { endStatements, type HeldSuspension, hasSuspended, readHeld } from '../suspensions/suspension-statements.ts'
import { type Brake, brakeLimits, engageBrake, holdBrake, readBrake } from './brake.ts'
import { type BrakeState, takePlace } from './brake-rules.ts'
import { refusalStatement } from './queries.ts'

/** A rule's response to an event, and how it records the outcome. */
interface RuleCause {
  id: string
  /** When the suspension ends by itself; null: a person has to resume the instance. */
  endsAt: number | null
  /** Returns statements for the batch that suspends, or for the one that records that nothing was suspended. */
  settle(outcome: SuspensionOutcome): Statement[]
}

/** An event that suspends an agent. */
interface Breach {
  /** The instance proven by the caller's key; undefined if it proves none. */
  instanceId: string | undefined
  /** Key of the caller. */
  keyId: string
  eventId: string
  /** Names the event, without a decoy's path or label. */
  reason: string
  /** Event to store in the transaction of the suspension, or alone if nobody is suspended; undefined: stored already. */
  hit?: { event: EventToStore; also: readonly Statement[] }
  /** True if the breach may have been handled before, and the agent resumed by a person since. */
  isRepeat?: boolean
  rule?: RuleCause
}

export interface AutoSuspension {
  /**
   * Stores the event and suspends the instance in one transaction; resolves with the outcome. Rejects with AppError
   * `overloaded`, or DatabaseError.
   */
  answer(breach: Breach): Promise<SuspensionOutcome>
  whenIdle(): Promise<void>
}

/** `take_over` replaces a timed suspension by one that a person has to end, `extend` lets it end later. */
export type SuspensionOutcome = 'suspend' | 'take_over' | 'extend' | 'already_suspended' | 'refused' | 'skipped'

/** Outcomes that change an instance. */
const changing: readonly SuspensionOutcome[] = ['suspend', 'take_over', 'extend']

/** What is decided about breaches, and the database as read for it. */
interface Plan {
  brake: Brake
  controls: ReadonlyMap<string, ControlRow>
  held: ReadonlyMap<string, HeldSuspension>
  outcomes: ReadonlyMap<Breach, SuspensionOutcome>
  /** First breach beyond the limits of the brake. */
  engagedBy: Breach | undefined
}

/** When the requested suspension ends by itself; null: a person has to resume the instance. */
const endOf = ({ rule }: Breach): number | null => rule?.endsAt ?? null

/** Of several breaches of an agent the strongest decides, and the others find it suspended. */
function longestFirst(a: Breach, b: Breach): number {
  const [first, second] = [endOf(a), endOf(b)]
  if (first === null || second === null) return Number(first !== null) - Number(second !== null)
  return second - first
}

/** Values of the metric's label. */
const resultNames: Record<SuspensionOutcome, string> = {
  suspend: 'suspended',
  take_over: 'taken_over',
  extend: 'extended',
  already_suspended: 'already_suspended',
  refused: 'refused',
  skipped: 'skipped',
}

/** A hit: its row and its event with metadata. */
const breachBytes = 2_000
const actor = localActor('system')

/**
 * Suspends agents automatically. Uses a separate queue, so that suspensions do not wait for ordinary events, and a stale
 * suspension does not fail other writes.
 */
export function createAutoSuspension(
  deps: Deps,
  parts: KillSwitchParts & { ingest: Ingest; countedReports: Pick<CountedReports, 'note'> },
): AutoSuspension {
  const { ingest, outbox, pendingResumes, countedReports } = parts
  const { database, clock, metrics } = deps
  const limits = brakeLimits(deps)

  async function readPlan(breaches: readonly Breach[]): Promise<Plan> {
    // Read the brake before the instances: a change in between makes the batch stale.
    const brake = await readBrake(deps)
    const ids = [...new Set(breaches.flatMap(({ instanceId }) => instanceId ?? []))]
    const controls = ids.length > 0 ? await readControls(database, ids) : new Map<string, ControlRow>()
    const suspended = [...controls].filter(([, control]) => control.suspended)
    const ending = await pendingResumes.find(suspended.map(([instanceId, { version }]) => ({ instanceId, version })))
    const held = ids.length > 0 ? await readHeld(database, ids) : new Map<string, HeldSuspension>()

    const changed = new Set<string>()
    const outcomes = new Map<Breach, SuspensionOutcome>()
    let places: BrakeState = brake
    let engagedBy: Breach | undefined

    async function decide(breach: Breach): Promise<SuspensionOutcome> {
      const { instanceId, eventId, isRepeat = false, rule } = breach
      const control = instanceId === undefined ? undefined : controls.get(instanceId)
      if (instanceId === undefined || !control) return 'skipped'
      if (changed.has(instanceId)) return 'already_suspended'
      const asRead = heldBy(control, held.get(instanceId), ending.has(instanceId))
      const verdict = onSuspend(asRead, holdUntil(endOf(breach)))
      if (verdict === 'keep' || verdict === 'hold_key') return 'already_suspended'
      const cause = { instanceId, eventId, ruleId: rule?.id ?? null }
      if (isRepeat && (await hasSuspended(database.db, cause))) return 'already_suspended'
      // An agent that is suspended has its place: the brake must not leave it to the timer of a rule.
      const taken = verdict === 'suspend' ? takePlace(places, limits, instanceId) : places
      if (!taken) {
        if (!brake.engaged) engagedBy ??= breach
        return 'refused'
      }
      places = taken
      changed.add(instanceId)
      return verdict
    }

    for (const breach of breaches.toSorted(longestFirst)) outcomes.set(breach, await decide(breach))
    return { brake, controls, held, outcomes, engagedBy }
  }

  /** Whether the breach is stored in the batch of the plan, and not alone. */
  const isInBatch = ({ outcomes, engagedBy }: Plan, breach: Breach) =>
    breach === engagedBy || changing.includes(outcomes.get(breach)!)

  /** Prepares the batch of a plan, which suspends or engages the brake; without statements if it does neither. */
  function prepareBatch(plan: Plan): PreparedChange<Plan> {
    const { brake, controls, held, outcomes, engagedBy } = plan
    const chosen = [...outcomes].filter(([breach]) => isInBatch(plan, breach))
    if (chosen.length === 0) return { statements: [], result: () => plan }
    const now = clock.now()
    const changes: PreparedControl[] = []
    const moving: { id: string; statements: Statement[] }[] = []
    for (const [breach, outcome] of chosen) {
      const { instanceId: id = '', eventId, reason, rule } = breach
      const endsAt = endOf(breach)
      if (outcome === 'extend') {
        const timed = held.get(id)!
        moving.push({ id, statements: endStatements(database, { ...timed, endsAt: timed.endsAt! }, endsAt) })
      } else if (changing.includes(outcome)) {
        const cause = { eventId, ...(rule ? { ruleId: rule.id } : {}) }
        const request = { instanceId: id, suspending: { reason, cause, endsAt }, actor, now }
        const change = prepareControl(deps, parts, controls.get(id)!, request)
        changes.push(change)
        moving.push({ id, statements: change.moving })
      }
    }
    const engaging = engagedBy && engageBrake(deps, { ingest }, brake, engagedBy.eventId)
    const hits = chosen.flatMap(([{ hit }]) => hit ?? [])
    const touchedBy = new Map(chosen.flatMap(([{ hit, keyId }]) => (hit ? [[hit.event.id, keyId] as const] : [])))
    const events = [...hits.map(({ event }) => event), ...(engaging ? [engaging.event] : [])]
    const storing = events.length > 0 ? ingest.prepare(events, touchedBy) : undefined
    const alerts = changes.map(({ alert }) => alert)
    /** In the order of locks, as in every batch of control. */
    const steps: Record<string, readonly Statement[]> = {
      brake: engaging?.statements ?? holdBrake(deps, brake),
      // In the order of ids: two batches that lock the same instances in different orders could deadlock.
      instances: moving.toSorted((a, b) => (a.id < b.id ? -1 : 1)).flatMap(({ statements }) => statements),
      events: storing?.statements ?? [],
      alerts: outbox.ownStatements(alerts, now),
      hits: hits.flatMap(({ also }) => also),
      responses: chosen.flatMap(([{ rule }, outcome]) => rule?.settle(outcome) ?? []),
      refusal: engagedBy ? [refusalStatement(database, engagedBy.instanceId!, engagedBy.eventId, now)] : [],
      audit: changes.flatMap(({ recording }) => recording),
    }
    return {
      statements: Object.values(steps).flat(),
      result(rowsOf) {
        storing?.stored(rowsOf)
        for (const change of changes) announceControl(deps, parts, change)
        if (engaging) deps.log.warn({ eventId: engagedBy?.eventId }, 'brake of automatic suspensions engaged')
        return plan
      },
    }
  }

  /** Stores breaches that suspend nobody, with ordinary priority: a suspended agent must not use capacity reserved for control. */
  async function storeAlone(breach: Breach, outcome: SuspensionOutcome): Promise<void> {
    const { hit, keyId, instanceId, eventId, rule } = breach
    const refusal = [
      ...(outcome === 'refused' ? [refusalStatement(database, instanceId!, eventId, clock.now())] : []),
      ...(rule?.settle(outcome) ?? []),
    ]
    if (hit) {
      await ingest.store([hit.event], { also: [...hit.also, ...refusal], keyId, isDecoyHit: true })
    } else if (refusal.length > 0) {
      await database.batch(refusal)
    }
    if (outcome === 'skipped' && !rule) noteSkipped(breach)
  }

  function noteSkipped({ instanceId, keyId, eventId }: Breach): void {
    const why =
      instanceId === undefined
        ? 'the key belongs to several instances and none was named'
        : 'the instance never sent a heartbeat'
    countedReports.note({ kind: eventTypes.suspensionSkipped, owner: keyId, name: instanceId ?? '' }, (count) => ({
      severity: 'warning',
      event_type: eventTypes.suspensionSkipped,
      description: `Nobody was suspended after a breach: ${why}`,
      metadata: { event_id: eventId, key_id: keyId, occurrences: count },
      ...(instanceId === undefined ? {} : { instance_id: instanceId }),
    }))
  }

  const queue = new GroupCommit<Breach, Error | SuspensionOutcome>({
    queue: 'automatic-suspensions',
    clock,
    metrics,
    weigh: ({ keyId }) => ({ rows: 1, bytes: breachBytes, owner: keyId }),
    async commit(breaches) {
      const plan = await changeGuarded(database, async () => prepareBatch(await readPlan(breaches)))
      return Promise.all(
        breaches.map(async (breach) => {
          const outcome = plan.outcomes.get(breach)!
          try {
            if (!isInBatch(plan, breach)) await storeAlone(breach, outcome)
            metrics.automaticSuspensions.inc({ result: resultNames[outcome] })
            return outcome
          } catch (fault) {
            return fault as Error
          }
        }),
      )
    },
  })

  return {
    async answer(breach) {
      const outcome = await queue.add(breach)
      if (outcome instanceof Error) throw outcome
      return outcome
    },
    whenIdle: () => queue.whenIdle(),
  }
}
