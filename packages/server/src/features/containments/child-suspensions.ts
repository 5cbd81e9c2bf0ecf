import { limits } from '@wardline/contract'
import { minuteMs } from '../../clock.ts'
import type { Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { DatabaseError } from '../../errors.ts'
import { auditManyStatements, localActor } from '../audit/audit.ts'
import { controlMessage } from '../control/control-message.ts'
import { type FleetRow, fleetMoveStatement, holdFleet, readFleet } from '../instances/fleet-statements.ts'
import { checkParents, maxLevels, readRunningChildren } from '../instances/parent-statements.ts'
import { nextVersion } from '../instances/version-claims.ts'
import {
  fleetResumptionsStatement,
  fleetSuspensionsStatement,
  readEndedThrough,
} from '../suspensions/fleet-suspension-statements.ts'
import { type FleetParts, inLockOrder, publishAll } from './fleet-change.ts'

/** Agents per transaction, as in a part of a containment. */
const partAgents = 200
/** Parents per query. */
const pageParents = 1_000
/** Interval of comparing all parents, which finds what no message and no heartbeat of this process showed. */
const compareAllMs = minuteMs
/** Attempts per transaction. Each loses to a change of one of the agents, or to another process that does the same. */
const maxAttempts = 300

const actor = localActor('system')

/**
 * Returns the reason of a suspension through a parent. That of the parent is passed on only within one key: others could
 * name a victim as parent to learn it.
 */
export const throughReason = (parent: string, reason: string | null, isSameOwner: boolean): string => {
  const text = `Parent ${parent} is suspended`
  return isSameOwner && reason ? [...`${text}: ${reason}`].slice(0, limits.reason).join('') : text
}

interface Child extends FleetRow {
  parent_id: string
  /** Reason of the suspension, or of the resume for the audit log. */
  reason: string
}

/**
 * Suspends the children of suspended parents, and resumes those that are suspended through a parent that no longer is.
 * Compares what is stored, so any number of processes may do it, and a crash leaves nothing to repair.
 */
export class ChildSuspensions {
  readonly #deps: Deps
  readonly #parts: FleetParts
  /** Possible parents to compare in the next run. */
  readonly #news = new Set<string>()
  /** Newest version of each message since all were compared: messages are repeated each second for a minute. */
  readonly #heard = new Map<string, number>()
  #comparedAt: number | undefined
  #isFollowing = false

  constructor(deps: Deps, parts: FleetParts) {
    this.#deps = deps
    this.#parts = parts
  }

  /** Call with the parents of instances that were registered, or named their parent, just now. */
  note(parents: Iterable<string>): void {
    for (const parent of parents) this.#news.add(parent)
  }

  /** Periodic job. */
  async run(): Promise<void> {
    this.#follow()
    const monotonic = this.#deps.clock.monotonic()
    if (this.#comparedAt === undefined || monotonic - this.#comparedAt >= compareAllMs) {
      this.#heard.clear()
      await this.#settle(undefined)
      this.#comparedAt = monotonic
    }
    const news = [...this.#news]
    this.#news.clear()
    try {
      await this.#settle(news)
    } catch (fault) {
      this.note(news)
      throw fault
    }
  }

  /** Only where the job runs: another process would collect messages in vain. */
  #follow(): void {
    if (this.#isFollowing) return
    this.#isFollowing = true
    const { bus } = this.#deps
    bus.onControl(({ instance_id, version }) => {
      if ((this.#heard.get(instance_id) ?? -1) >= version) return
      this.#heard.set(instance_id, version)
      this.#news.add(instance_id)
    })
    bus.onReconnect(() => {
      this.#comparedAt = undefined
    })
  }

  /** Level by level: what was changed are the parents of the next one. Undefined: all parents. */
  async #settle(parents: string[] | undefined): Promise<void> {
    let level = parents
    for (let depth = 0; depth <= maxLevels; depth++) {
      const pages = level ? pagesOf(level) : [undefined]
      const changed: string[] = []
      for (const page of pages) {
        changed.push(...(await this.#changeAll(page, 'suspend')), ...(await this.#changeAll(page, 'resume')))
      }
      if (changed.length === 0) return
      level = changed
    }
  }

  async #changeAll(parents: readonly string[] | undefined, action: 'suspend' | 'resume'): Promise<string[]> {
    const changed: string[] = []
    let publishing = Promise.resolve()
    try {
      for (let failed = 0; ; ) {
        const children = await (action === 'suspend' ? this.#findRunning(parents) : this.#findEnded(parents))
        if (children.length === 0) return changed
        try {
          const messages = await this.#change(children, action)
          failed = 0
          changed.push(...messages.map(({ instance_id }) => instance_id))
          // The database processes the next ones at the same time.
          publishing = publishing.then(() => publishAll(this.#deps, this.#parts.suspensionFacts, messages))
        } catch (fault) {
          failed += 1
          const isRace = fault instanceof DatabaseError && (fault.stale || fault.busy)
          if (!isRace || failed === maxAttempts) throw fault
        }
      }
    } finally {
      await publishing
    }
  }

  async #findRunning(parents: readonly string[] | undefined): Promise<Child[]> {
    const rows = await readRunningChildren(this.#deps.database, parents, partAgents)
    return rows.map((row) => ({
      ...row,
      reason: throughReason(row.parent_id, row.parent_reason, row.same_owner === 1),
    }))
  }

  async #findEnded(parents: readonly string[] | undefined): Promise<Child[]> {
    const { database } = this.#deps
    const ended = await readEndedThrough(database, parents, partAgents)
    if (ended.size === 0) return []
    const rows = await readFleet(database, [...ended.keys()])
    return rows.flatMap((row) => {
      const { parent, version } = ended.get(row.id)!
      // Changed between the two readings.
      if (row.suspended === 0 || row.control_version !== version) return []
      return [{ ...row, parent_id: parent, reason: `Parent ${parent} is no longer suspended` }]
    })
  }

  /** Changes the children in one transaction; resolves with the messages, which are not published yet. */
  async #change(children: readonly Child[], action: 'suspend' | 'resume') {
    const { database, clock, controlSigner, metrics, log } = this.#deps
    const { enforcement, suspensionFacts } = this.#parts
    const suspended = action === 'suspend'
    const now = clock.now()
    const moves = children.map((child) => ({
      id: child.id,
      from: child.control_version,
      wasSuspended: child.suspended === 1,
      version: nextVersion(child.control_version, child.claimed_version),
      canAcknowledge: child.applied_version !== null || child.claimed_version !== null,
      through: child.parent_id,
      reason: child.reason,
    }))
    const parents = [...new Set(children.map(({ parent_id }) => parent_id))]
    const groups = [...Map.groupBy(moves, ({ reason }) => reason)]
    const ids = moves.map(({ id }) => id)
    const each = (statementsOf: (members: typeof moves, reason: string) => Statement[]) =>
      groups.flatMap(([reason, members]) => statementsOf(members, reason))
    const statements = inLockOrder({
      members: [holdFleet(database, [...ids, ...parents])],
      unchanged: [checkParents(database, moves, { parents, suspended })],
      move: each((members, reason) => [fleetMoveStatement(database, members, suspended ? reason : null, now)]),
      suspensions: suspended
        ? each((members, reason) => {
            const [{ through }] = members as [(typeof moves)[number]]
            const shared = { containmentId: null, throughId: through, reason, actor: actor.keyId, now, members }
            return [fleetSuspensionsStatement(database, shared)]
          })
        : [fleetResumptionsStatement(database, ids, now)],
      calls: each((members, reason) =>
        enforcement.statements({ action, instances: members, reason, containmentId: null, now }),
      ),
      audit: each((members, reason) => {
        const entries = members.map(({ id, from, wasSuspended, version, through }) => ({
          target: id,
          before: { suspended: wasSuspended, version: from },
          after: { suspended, version, through },
        }))
        return auditManyStatements(database, actor, { action: `instance.${action}`, reason }, entries, now)
      }),
    })
    await database.batch(statements, { isControl: true })
    if (suspended) for (const { id, version } of moves) suspensionFacts.noteStored(id, version, now)
    enforcement.notify()
    metrics.controlChanges.inc({ action }, moves.length)
    log.info({ instances: moves.length, action }, 'children follow their parents')
    return moves.map(({ id, version, reason }) =>
      controlMessage(id, { version, suspended, reason: suspended ? reason : null }, now, controlSigner),
    )
  }
}

function pagesOf(ids: readonly string[]): string[][] {
  const count = Math.ceil(ids.length / pageParents)
  return Array.from({ length: count }, (_, page) => ids.slice(page * pageParents, (page + 1) * pageParents))
}
