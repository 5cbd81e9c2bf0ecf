import type { Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { DatabaseError } from '../../errors.ts'
import type { Beat } from './beats.ts'
import {
  findBeyondLimits,
  type HeartbeatStatements,
  type Refused,
  readDeletedVersions,
  registerInstances,
} from './registration-queries.ts'
import { nextVersion, type VersionClaim } from './version-claims.ts'

export type Newcomer = Pick<Beat, 'heartbeat' | 'instances' | 'registers' | 'beside'>

/** A new instance that begins suspended, with its control version. */
interface HeldMember {
  id: string
  version: number
  /** Whether the agent reported a control version. */
  canAcknowledge: boolean
}

/** The stops and parents that hold newcomers, as read. */
interface FoundStops {
  /** Why they are suspended, by instance id; those that nothing holds are missing. */
  reasons: ReadonlyMap<string, string>
  /** Fails its batch as stale if another stop was requested since. Follows the lock of registrations. */
  check: Statement
  /** Store the suspensions, after the registration; fail the batch as stale unless all members were registered. */
  statements(members: readonly HeldMember[], now: number): Statement[]
  /** Call after the commit. */
  announce(members: readonly HeldMember[], now: number): Promise<void>
}

/** Finds what holds new instances: fleet stops, and the suspensions of parents. */
export interface RegistrationStops {
  find(newcomers: readonly Newcomer[]): Promise<FoundStops>
}

/** Attempts: each loses to a containment that was requested meanwhile, of which there are few. */
const maxAttempts = 20

interface Registration {
  refused: Refused
  claims: VersionClaim[]
  /** Instances that cannot have the parent that they name. */
  orphans: string[]
}

/** Registers new instances up to the limits; those that a stop holds begin suspended, in the same transaction. */
export async function registerNewcomers(
  { config, database }: Pick<Deps, 'config' | 'database'>,
  { texts, stops }: { texts: HeartbeatStatements; stops: RegistrationStops },
  newcomers: readonly Beat[],
  now: number,
  attempt = 1,
): Promise<Registration> {
  const max = config.maxInstances
  const found = await stops.find(newcomers)
  const members = await heldMembers(database, newcomers, found.reasons)
  const held = new Map(members.map(({ id, version }) => [id, { version, reason: found.reasons.get(id)! }]))
  const statements = members.length > 0 ? found.statements(members, now) : []
  try {
    const hold = { held, check: found.check, statements }
    const registered = await registerInstances(database, texts, newcomers, { max, now, hold })
    if (members.length > 0) await found.announce(members, now)
    return registered
  } catch (fault) {
    if (!(fault instanceof DatabaseError && fault.stale) || attempt === maxAttempts) throw fault
  }
  // A containment was requested meanwhile, or a limit has no room for all of those that would begin suspended.
  const refused = await findBeyondLimits(database, texts, newcomers, max)
  const others = newcomers.filter(({ heartbeat }) => !refused.has(heartbeat.instance_id))
  if (others.length === 0) return { refused, claims: [], orphans: [] }
  const rest = await registerNewcomers({ config, database }, { texts, stops }, others, now, attempt + 1)
  return { ...rest, refused: new Map([...refused, ...rest.refused]) }
}

async function heldMembers(
  { db }: Deps['database'],
  newcomers: readonly Beat[],
  reasons: ReadonlyMap<string, string>,
): Promise<HeldMember[]> {
  if (reasons.size === 0) return []
  const deleted = await readDeletedVersions(db, [...reasons.keys()])
  return newcomers.flatMap(({ heartbeat: { instance_id: id, control_version: claimed = null } }) =>
    reasons.has(id)
      ? [{ id, version: nextVersion(deleted.get(id) ?? 0, claimed), canAcknowledge: claimed !== null }]
      : [],
  )
}
