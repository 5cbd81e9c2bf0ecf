import { eventTypes } from '@wardline/contract'
import type { Statement } from '../../db/database.ts'
import { GroupCommit } from '../../db/group-commit.ts'
import { changeGuarded } from '../../db/guarded-change.ts'
import { localActor } from '../audit/audit.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import type { EventToStore, Ingest } from '../events/ingest.ts'
import { type ControlRow, readControls } from '../instances/control-statements.ts'
import {
  announceControl,
  type KillSwitchDeps,
  type PreparedControl,
  prepareControl,
} from '../kill-switch/kill-switch.ts'
import { hasSuspended } from '../kill-switch/suspension-statements.ts'
import { type Brake, engageBrake, readBrake, takePlaces } from './brake.ts'
import { refusalStatement } from './brake-queries.ts'

/** A rule's response to an event, and how it records the outcome. */
interface RuleCause {
  id: string
  /** Returns statements for the batch that suspends, or for the one that records that nothing was suspended. */
  settle(outcome: Outcome, version: number | undefined): Statement[]
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
  answer(breach: Breach): Promise<Outcome>
  whenIdle(): Promise<void>
}

export type Outcome = 'suspend' | 'already_suspended' | 'refused' | 'skipped'

/** Plan for a set of breaches, based on the database as read. */
interface Plan {
  brake: Brake
  controls: ReadonlyMap<string, ControlRow>
  outcomes: ReadonlyMap<Breach, Outcome>
  /** First breach beyond the limits of the brake. */
  engagedBy: Breach | undefined
}

/** A hit: its row and its event with metadata. */
const breachBytes = 2_000
const actor = localActor('system')

/**
 * Suspends agents automatically. Uses a separate queue, so that suspensions do not wait for ordinary events, and a stale
 * suspension does not fail other writes.
 */
export function createAutoSuspension(
  deps: KillSwitchDeps,
  { ingest, countedReports: reports }: { ingest: Ingest; countedReports: Pick<CountedReports, 'note'> },
): AutoSuspension {
  const { database, clock, metrics } = deps

  async function plan(breaches: readonly Breach[]): Promise<Plan> {
    // Read the brake before the instances: a change in between makes the batch stale.
    const brake = await readBrake(deps)
    const ids = [...new Set(breaches.flatMap(({ instanceId }) => instanceId ?? []))]
    const controls = ids.length > 0 ? await readControls(database.db, ids) : new Map<string, ControlRow>()
    const suspended = new Set([...controls].filter(([, control]) => control.suspended).map(([id]) => id))
    const outcomes = new Map<Breach, Outcome>()
    let { places } = takePlaces(deps, brake)
    let engagedBy: Breach | undefined
    for (const breach of breaches) {
      const { instanceId, eventId, isRepeat = false } = breach
      if (instanceId === undefined || !controls.has(instanceId)) outcomes.set(breach, 'skipped')
      else if (suspended.has(instanceId)) outcomes.set(breach, 'already_suspended')
      else if (isRepeat && (await hasSuspended(database.db, instanceId, eventId)))
        outcomes.set(breach, 'already_suspended')
      else if (places > 0) {
        places -= 1
        suspended.add(instanceId)
        outcomes.set(breach, 'suspend')
      } else {
        outcomes.set(breach, 'refused')
        if (!brake.engaged) engagedBy ??= breach
      }
    }
    return { brake, controls, outcomes, engagedBy }
  }

  const changesBrake = ({ outcomes, engagedBy }: Plan) =>
    engagedBy !== undefined || [...outcomes.values()].includes('suspend')

  /** Builds the batch of the suspensions, and of engaging the brake. */
  function prepareBatch({ brake, controls, outcomes, engagedBy }: Plan) {
    const now = clock.now()
    const chosen = [...outcomes].filter(([breach, outcome]) => outcome === 'suspend' || breach === engagedBy)
    const changes: PreparedControl[] = []
    for (const [{ instanceId, eventId, reason, rule }, outcome] of chosen) {
      if (outcome !== 'suspend') continue
      const cause = { eventId, ...(rule ? { ruleId: rule.id } : {}) }
      const request = { instanceId: instanceId!, suspending: { reason, cause }, actor, now }
      changes.push(prepareControl(deps, controls.get(instanceId!)!, request))
    }
    const engaging = engagedBy ? engageBrake(deps, { ingest }, brake, engagedBy.eventId) : undefined
    const hits = chosen.flatMap(([{ hit }]) => hit ?? [])
    const touchedBy = new Map(chosen.flatMap(([{ hit, keyId }]) => (hit ? [[hit.event.id, keyId] as const] : [])))
    const events = [...hits.map(({ event }) => event), ...(engaging ? [engaging.event] : [])]
    const settled = chosen.flatMap(([{ rule, instanceId }, outcome]) => {
      const version = changes.find((change) => outcome === 'suspend' && change.instanceId === instanceId)?.version
      return rule?.settle(outcome, version) ?? []
    })
    const prepared = events.length > 0 ? ingest.prepare(events, touchedBy) : undefined
    const before = [
      ...(engaging?.statements ?? takePlaces(deps, brake).statements),
      // In the order of ids: two batches that lock the same instances in different orders could deadlock.
      ...changes.toSorted((a, b) => (a.instanceId < b.instanceId ? -1 : 1)).flatMap(({ moving }) => moving),
    ]
    return {
      statements: [
        ...before,
        ...(prepared?.statements ?? []),
        ...deps.outbox.ownStatements(
          changes.map(({ alert }) => alert),
          now,
        ),
        ...hits.flatMap(({ also }) => also),
        ...settled,
        ...(engagedBy ? [refusalStatement(database, engagedBy.instanceId!, engagedBy.eventId, now)] : []),
        ...changes.flatMap(({ recording }) => recording),
      ],
      finish(rows: readonly Record<string, unknown>[][]) {
        prepared?.stored(rows[before.length]!)
        for (const change of changes) announceControl(deps, change)
        if (engaging) deps.log.warn({ eventId: engagedBy?.eventId }, 'brake of automatic suspensions engaged')
      },
    }
  }

  /** Stores breaches that suspend nobody, with ordinary priority: a suspended agent must not use capacity reserved for control. */
  async function storeAlone(breach: Breach, outcome: Outcome): Promise<void> {
    const { hit, keyId, instanceId, eventId, rule } = breach
    const refusal = [
      ...(outcome === 'refused' ? [refusalStatement(database, instanceId!, eventId, clock.now())] : []),
      ...(rule?.settle(outcome, undefined) ?? []),
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
    reports.note({ kind: eventTypes.suspensionSkipped, owner: keyId, name: instanceId ?? '' }, (count) => ({
      severity: 'warning',
      event_type: eventTypes.suspensionSkipped,
      description: `Nobody was suspended after a breach: ${why}`,
      metadata: { event_id: eventId, key_id: keyId, occurrences: count },
      ...(instanceId === undefined ? {} : { instance_id: instanceId }),
    }))
  }

  const queue = new GroupCommit<Breach, Error | Outcome>({
    queue: 'automatic-suspensions',
    clock,
    metrics,
    weigh: ({ keyId }) => ({ rows: 1, bytes: breachBytes, owner: keyId }),
    async commit(breaches) {
      let latest = await plan(breaches)
      if (changesBrake(latest)) {
        let isFirst = true
        const finish = await changeGuarded(database, async () => {
          if (!isFirst) latest = await plan(breaches)
          isFirst = false
          if (!changesBrake(latest)) return { statements: [], result: () => () => {} }
          const { statements, finish } = prepareBatch(latest)
          return { statements, result: (rows) => () => finish(rows) }
        })
        finish()
      }
      const { outcomes, engagedBy } = latest
      return Promise.all(
        breaches.map(async (breach) => {
          const outcome = outcomes.get(breach)!
          const result = outcome === 'suspend' ? 'suspended' : outcome
          try {
            if (outcome !== 'suspend' && breach !== engagedBy) await storeAlone(breach, outcome)
            metrics.automaticSuspensions.inc({ result })
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
