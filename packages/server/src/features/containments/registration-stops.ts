import { limits } from '@wardline/contract'
import { minuteMs } from '../../clock.ts'
import type { Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { auditManyStatements, localActor } from '../audit/audit.ts'
import { controlMessage } from '../control/control-message.ts'
import type { Enforcement } from '../enforcement/enforcement.ts'
import { checkRegistrations, unchangedCount } from '../instances/fleet-statements.ts'
import { checkRegistered, readSuspendedParents } from '../instances/parent-statements.ts'
import { parentOf } from '../instances/parents.ts'
import type { Newcomer, RegistrationStops } from '../instances/registration.ts'
import { fleetSuspensionsStatement, readHoldingLike } from '../suspensions/fleet-suspension-statements.ts'
import type { SuspensionFacts } from '../suspensions/suspension-facts.ts'
import { throughReason } from './child-suspensions.ts'
import { publishAll } from './fleet-change.ts'
import {
  holdContainment,
  joinStatements,
  noOtherStop,
  readPlannedLike,
  readRecentStops,
  readStops,
  type StopRow,
} from './queries.ts'

/** Time between the request and the commit of a containment, in which it selects its agents. */
const requestingMs = minuteMs
const actor = localActor('system')

/** What holds newcomers: a containment, or the suspension of their parent. */
type Holding = { reason: string } & ({ containmentId: string } | { throughId: string })

const byStop = ({ id, reason }: StopRow): Holding => ({
  containmentId: id,
  reason: [...`Registered while containment ${id} holds agents of its key: ${reason}`].slice(0, limits.reason).join(''),
})

/** In the order of their locks. */
const nameOf = (holding: Holding): string =>
  'containmentId' in holding ? holding.containmentId : `parent ${holding.throughId} ${holding.reason}`

/** Bound ids as patterns of LIKE; among the characters of an id, only _ is special. */
const patternOf = (bound: string): string => bound.replaceAll('_', '\\_').replace(/\*$/, '%')

/** Of several stops, the one that two operators have to end, then the newest. */
const strongestFirst = (a: StopRow, b: StopRow): number => b.two_person - a.two_person || (a.id < b.id ? 1 : -1)

/**
 * Lets instances begin suspended that are registered while a containment holds agents of the same key: a key for
 * `codex-*` could otherwise register `codex-2` when `codex-1` is stopped. Keys that are bound to no instance can resume
 * agents themselves, and are left out. Those that name a suspended parent begin suspended as well, by any key.
 */
export function createRegistrationStops(
  deps: Deps,
  {
    enforcement,
    suspensionFacts: facts,
  }: { enforcement: Pick<Enforcement, 'statements' | 'notify'>; suspensionFacts: SuspensionFacts },
): RegistrationStops {
  const { database, clock, controlSigner, metrics, log } = deps

  /** Returns the stop that holds each of the newcomers. */
  async function findStops(newcomers: readonly Newcomer[]): Promise<Map<string, StopRow>> {
    const patterns = new Map(newcomers.flatMap(({ instances }) => instances ?? []).map((one) => [one, patternOf(one)]))
    if (patterns.size === 0) return new Map()
    const given = [...patterns.values()]
    // In this order: what is planned may be suspended between the two reads.
    const planned = await readPlannedLike(database, given)
    const covered = [...planned, ...(await readHoldingLike(database, given))]
    const ids = new Set(covered.map(({ containmentId }) => containmentId))
    const stops = (await readStops(database.db, [...ids])).sort(strongestFirst)
    return new Map(
      newcomers.flatMap(({ heartbeat, instances }) => {
        const own = new Set((instances ?? []).map((one) => patterns.get(one)))
        const isOwn = ({ id }: StopRow) =>
          covered.some(({ containmentId, pattern }) => containmentId === id && own.has(pattern))
        const stop = stops.find(isOwn)
        return stop ? [[heartbeat.instance_id, stop] as const] : []
      }),
    )
  }

  /** Returns the suspensions of the parents that newcomers name. */
  async function findParents(newcomers: readonly Newcomer[]): Promise<Map<string, Holding>> {
    const parents = await readSuspendedParents(database, [...new Set(newcomers.flatMap((one) => parentOf(one) ?? []))])
    return new Map(
      newcomers.flatMap((newcomer) => {
        const parent = parents.get(parentOf(newcomer) ?? '')
        if (!parent) return []
        const reason = throughReason(parent.id, parent.reason, parent.owner === newcomer.registers.owner)
        return [[newcomer.heartbeat.instance_id, { throughId: parent.id, reason }] as const]
      }),
    )
  }

  return {
    async find(newcomers) {
      const since = clock.now() - requestingMs
      const recent = await readRecentStops(database.db, since)
      const stops = await findStops(newcomers)
      // A containment lasts until a person ends it, so it comes before the suspension of a parent.
      const found = new Map([
        ...(await findParents(newcomers)),
        ...[...stops].map(([id, stop]) => [id, byStop(stop)] as const),
      ])
      const reasons = new Map([...found].map(([id, { reason }]) => [id, reason]))
      return {
        reasons,
        check: checkRegistrations(database, noOtherStop(since, recent)),
        statements: (members, now) => {
          const groups = Map.groupBy(members, ({ id }) => nameOf(found.get(id)!))
          return [...groups.keys()].toSorted().flatMap((name): Statement[] => {
            const joined = groups.get(name)!
            const holding = found.get(joined[0]!.id)!
            const moves = joined.map(({ id, version }) => ({ id, from: version, wasSuspended: true, version }))
            const containmentId = 'containmentId' in holding ? holding.containmentId : null
            const cause: Record<string, string> =
              'containmentId' in holding ? { containment: holding.containmentId } : { through: holding.throughId }
            const shared = { ...holding, containmentId, now }
            const entries = joined.map(({ id, version }) => ({
              target: id,
              before: null,
              after: { suspended: true, version, ...cause },
            }))
            const audited = { action: 'instance.suspend', reason: holding.reason }
            return [
              containmentId === null
                ? checkRegistered(database, moves)
                : holdContainment(database, containmentId, unchangedCount(database, moves), moves.length),
              fleetSuspensionsStatement(database, { ...shared, actor: actor.keyId, members: joined }),
              ...enforcement.statements({ ...shared, action: 'suspend', instances: moves }),
              ...(containmentId === null
                ? []
                : joinStatements(
                    database,
                    containmentId,
                    joined.map(({ id, version }) => [id, version]),
                    now,
                  )),
              ...auditManyStatements(database, actor, audited, entries, now),
            ]
          })
        },
        async announce(members, now) {
          const messages = members.map(({ id, version }) => {
            facts.noteStored(id, version, now)
            const state = { version, suspended: true, reason: reasons.get(id)! }
            return controlMessage(id, state, now, controlSigner)
          })
          enforcement.notify()
          metrics.controlChanges.inc({ action: 'suspend' }, members.length)
          log.info({ instances: members.length }, 'new instances begin suspended')
          await publishAll(deps, facts, messages)
        },
      }
    },
  }
}
