import { eventTypes, type SupervisorResult } from '@wardline/contract'
import type { Statement } from '../../db/database.ts'
import { GroupCommit } from '../../db/group-commit.ts'
import type { Deps } from '../../deps.ts'
import { AppError, unknownInstance } from '../../errors.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import { type AckedControl, appliedStatement, claimedStatement, readAcked } from '../instances/control-statements.ts'
import { reportClaim } from '../instances/version-claims.ts'
import type { Quotas } from '../keys/quotas.ts'
import { acknowledgedStatement, enforcedStatement } from '../suspensions/suspension-statements.ts'

export interface Ack {
  instanceId: string
  version: number
  /** The key that sent it. */
  keyId: string
  /** What a supervisor says, with its key. */
  supervisor?: SupervisorResult
}

export type Acks = ReturnType<typeof createAcks>

/** Assumed bytes per ack: an id and a number. */
const ackBytes = 100

const aheadFault = () => new AppError('invalid', 'version must not be above the current control version.')

/** The state of an instance as read, with the changes by acks that are not stored yet. */
type Noted = AckedControl & { newApplied?: number; newClaimed?: number | undefined }

/** Acks share commits, and repeated ones write nothing, so that a flood of acks occupies one writer at a time. */
export function createAcks(
  { database, clock, metrics }: Deps,
  { countedReports, quotas }: { countedReports: Pick<CountedReports, 'note'>; quotas: Pick<Quotas, 'takeEvents'> },
) {
  function note(control: Noted | undefined, { instanceId, version, keyId }: Ack): AppError | undefined {
    if (!control) return unknownInstance(instanceId)
    if (version > control.version) {
      if (version !== (control.newClaimed ?? control.claimed)) {
        try {
          quotas.takeEvents(keyId, 0, 1, 0)
        } catch (fault) {
          if (fault instanceof AppError) return fault
          throw fault
        }
        control.newClaimed = version
      }
      reportClaim(countedReports, { instanceId: control.id, claimed: version, version: control.version }, keyId)
      return aheadFault()
    }
    if (version <= (control.newApplied ?? control.applied ?? -1)) return undefined
    // A valid acknowledgement clears an earlier claim of a version that was never issued.
    Object.assign(control, { newApplied: version, newClaimed: undefined, claimed: null })
    return undefined
  }

  /** Stores what supervisors hold, and reports processes that they could not hold. */
  async function writeEvidence(acks: readonly Ack[], now: number): Promise<void> {
    // A statement must not change a row twice, so only the latest report about an instance is used.
    const latest = new Map<string, Ack & { supervisor: SupervisorResult }>()
    for (const { supervisor, ...ack } of acks) if (supervisor) latest.set(ack.instanceId, { ...ack, supervisor })
    if (latest.size === 0) return
    // In the order of ids: two processes that lock the same rows in different orders could deadlock.
    const given = [...latest.values()]
      .map(({ instanceId, version, supervisor }) => ({ id: instanceId, version, ...supervisor }))
      .toSorted((a, b) => (a.id < b.id ? -1 : 1))
    const [stored] = await database.batch([enforcedStatement(database, given, now)])
    for (const { instance_id: id, requested_at: requestedAt } of stored!) {
      const { keyId, version, supervisor } = latest.get(String(id))!
      const { processes, left } = supervisor
      if (left === 0) {
        const seconds = Math.max(0, now - Number(requestedAt)) / 1_000
        metrics.suspensionStageSeconds.observe({ stage: 'enforced' }, seconds)
        continue
      }
      countedReports.note({ kind: eventTypes.supervisorIncomplete, owner: keyId, name: String(id) }, (occurrences) => ({
        severity: 'critical',
        event_type: eventTypes.supervisorIncomplete,
        description: `Its supervisor could not hold ${left} of ${processes + left} processes of the suspended agent.`,
        instance_id: String(id),
        metadata: { version, processes, left, occurrences },
      }))
    }
  }

  async function write(changed: readonly Noted[], now: number): Promise<void> {
    const applied: { id: string; version: number }[] = []
    const acknowledged: { id: string; version: number }[] = []
    const claims: Statement[] = []
    // In the order of ids: two processes that lock the same rows in different orders could deadlock.
    for (const { id, version, suspended, newApplied, newClaimed } of changed.toSorted((a, b) =>
      a.id < b.id ? -1 : 1,
    )) {
      if (newApplied !== undefined) applied.push({ id, version: newApplied })
      if (suspended && newApplied === version) acknowledged.push({ id, version })
      if (newClaimed !== undefined) claims.push(claimedStatement(database.db, id, newClaimed))
    }
    const statements = [
      ...(applied.length > 0 ? [appliedStatement(database, applied, now)] : []),
      ...(acknowledged.length > 0 ? [acknowledgedStatement(database, acknowledged, now, 'ack')] : []),
      ...claims,
    ]
    const noted = new Set((await database.batch(statements)).flat().map((row) => row.id))
    for (const { id, suspended, version, changedAt, newApplied } of changed) {
      if (!suspended || newApplied !== version || changedAt === null || !noted.has(id)) continue
      metrics.killConfirmSeconds.observe((now - changedAt) / 1000)
    }
  }

  const queue = new GroupCommit<Ack, AppError | undefined>({
    queue: 'acks',
    clock,
    metrics,
    weigh: ({ keyId }) => ({ rows: 1, bytes: ackBytes, owner: keyId }),
    async commit(acks) {
      const controls = await readAcked(database.db, [...new Set(acks.map(({ instanceId }) => instanceId))])
      const known = new Map<string, Noted>(controls.map((control) => [control.id, control]))
      const faults = acks.map((ack) => note(known.get(ack.instanceId), ack))
      const changed = [...known.values()].filter((c) => c.newApplied !== undefined || c.newClaimed !== undefined)
      const now = clock.now()
      if (changed.length > 0) await write(changed, now)
      await writeEvidence(
        acks.filter((_, place) => faults[place] === undefined),
        now,
      )
      return faults
    },
  })
  return {
    /**
     * Records the control version that the agent applied. Rejects with AppError `not_found`, or `invalid` for a version
     * that was never issued. Such a version is recorded too, because the next kill must be above it; it counts as a
     * critical event of the key and may reject with `quota_exceeded`.
     */
    async acknowledge(ack: Ack): Promise<void> {
      const fault = await queue.add(ack)
      if (fault) throw fault
    },
    whenIdle: () => queue.whenIdle(),
  }
}
