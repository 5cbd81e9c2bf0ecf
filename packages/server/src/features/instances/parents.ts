import { eventTypes, type Heartbeat } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import type { Beat } from './beats.ts'
import { maxLevels, type ParentClaim, storeParents } from './parent-queries.ts'

/** A heartbeat that names a parent which its instance does not have. */
export interface OtherParent extends ParentClaim {
  /** The parent that it has; null: none. */
  kept: string | null
}

/** An agent that cannot have the parent that it names names it every minute: more often is not attempted. */
const attemptEveryMs = 50_000
/** Agents whose attempt is remembered: further ones only cost the others a transaction more often. */
const maxRefused = 1_000

/** Throws AppError `invalid` if an agent names itself, which no other heartbeat can cause. */
export function assertOtherParent({ instance_id, parent_instance_id }: Heartbeat): void {
  if (parent_instance_id === instance_id) {
    throw new AppError('invalid', 'parent_instance_id must be the id of another instance than instance_id.')
  }
}

/** Returns what the heartbeat of the agent, else that of its supervisor, names as its parent. */
export const parentOf = ({ heartbeat, beside }: Beat): string | undefined =>
  heartbeat.parent_instance_id ?? beside?.heartbeat.parent_instance_id

/** Returns the parents that heartbeats name. */
export const claimsOfParents = (beats: readonly Beat[]): ParentClaim[] =>
  beats.flatMap((beat) => {
    const parent = parentOf(beat)
    return parent === undefined ? [] : [{ id: beat.heartbeat.instance_id, parent }]
  })

/** Stores what registered instances name as their parents, and reports what they cannot have. */
export class Parents {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #reports: Pick<CountedReports, 'note'>
  /** Times of the last attempts that failed. */
  readonly #refusedAt = new Map<string, number>()

  constructor(
    deps: Pick<Deps, 'database' | 'clock'>,
    { countedReports }: { countedReports: Pick<CountedReports, 'note'> },
  ) {
    this.#deps = deps
    this.#reports = countedReports
  }

  /** `keyOf`: the key of the heartbeat. Returns the claims that were stored. */
  async store(others: readonly OtherParent[], keyOf: (id: string) => string): Promise<ParentClaim[]> {
    const { database, clock } = this.#deps
    const now = clock.now()
    for (const other of others) if (other.kept !== null) this.#report(other, keyOf(other.id))
    const claims = others.filter(
      ({ id, kept }) => kept === null && now >= (this.#refusedAt.get(id) ?? Number.NEGATIVE_INFINITY) + attemptEveryMs,
    )
    if (claims.length === 0) return []
    return this.settle(claims, await storeParents(database, claims), keyOf)
  }

  /** Reports those of the claims that were refused, and returns the others. */
  settle(claims: readonly ParentClaim[], refused: readonly string[], keyOf: (id: string) => string): ParentClaim[] {
    const refusedIds = new Set(refused)
    const now = this.#deps.clock.now()
    return claims.filter((claim) => {
      if (!refusedIds.has(claim.id)) return true
      if (this.#refusedAt.size >= maxRefused) this.#refusedAt.clear()
      this.#refusedAt.set(claim.id, now)
      this.#report({ ...claim, kept: null }, keyOf(claim.id))
      return false
    })
  }

  #report({ id, parent, kept }: OtherParent, keyId: string): void {
    const why =
      kept === null
        ? `that would make a circle, or a tree of more than ${maxLevels} levels: it has no parent`
        : `it keeps ${kept}, which it named first`
    this.#reports.note({ kind: eventTypes.parentIgnored, owner: keyId, name: id }, (count) => ({
      severity: 'warning',
      event_type: eventTypes.parentIgnored,
      description: `The agent names ${parent} as its parent; ${why}.`,
      instance_id: id,
      metadata: { named: parent, kept, occurrences: count },
    }))
  }
}
