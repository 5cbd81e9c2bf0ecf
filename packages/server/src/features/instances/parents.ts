import { eventTypes, type Heartbeat } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import type { Beat } from './beats.ts'
import { type ParentClaim, storeParents } from './parent-queries.ts'
import { maxLevels } from './parent-statements.ts'

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
export const parentOf = ({ heartbeat, beside }: Pick<Beat, 'heartbeat' | 'beside'>): string | undefined =>
  heartbeat.parent_instance_id ?? beside?.heartbeat.parent_instance_id

/** Returns the parents that heartbeats name. */
export const claimsOfParents = (beats: readonly Beat[]): ParentClaim[] =>
  beats.flatMap((beat) => {
    const parent = parentOf(beat)
    return parent === undefined ? [] : [{ id: beat.heartbeat.instance_id, parent }]
  })

export interface ParentParts {
  countedReports: Pick<CountedReports, 'note'>
  /** Compares these parents with their children soon. */
  childSuspensions: { note(parents: readonly string[]): void }
}

/** Stores what registered instances name as their parents, and reports what they cannot have. */
export class Parents {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #parts: ParentParts
  /** Times of the last attempts that failed. */
  readonly #refusedAt = new Map<string, number>()

  constructor(deps: Pick<Deps, 'database' | 'clock'>, parts: ParentParts) {
    this.#deps = deps
    this.#parts = parts
  }

  /** `keyOf`: the key of the heartbeat. */
  async store(others: readonly OtherParent[], keyOf: (id: string) => string): Promise<void> {
    const { database, clock } = this.#deps
    const now = clock.now()
    for (const other of others) if (other.kept !== null) this.#report(other, keyOf(other.id))
    const claims = others.filter(
      ({ id, kept }) => kept === null && now >= (this.#refusedAt.get(id) ?? Number.NEGATIVE_INFINITY) + attemptEveryMs,
    )
    if (claims.length > 0) this.settle(claims, await storeParents(database, claims), keyOf)
  }

  /** Call with claims that are stored now, but for the refused ones. */
  settle(claims: readonly ParentClaim[], refused: readonly string[], keyOf: (id: string) => string): void {
    const refusedIds = new Set(refused)
    const now = this.#deps.clock.now()
    for (const claim of claims) {
      if (!refusedIds.has(claim.id)) continue
      if (this.#refusedAt.size >= maxRefused) this.#refusedAt.clear()
      this.#refusedAt.set(claim.id, now)
      this.#report({ ...claim, kept: null }, keyOf(claim.id))
    }
    if (claims.length > 0) this.#parts.childSuspensions.note(claims.map(({ parent }) => parent))
  }

  #report({ id, parent, kept }: OtherParent, keyId: string): void {
    const why =
      kept === null
        ? `that would make a circle, or a tree of more than ${maxLevels} levels: it has no parent`
        : `it keeps ${kept}, which it named first`
    this.#parts.countedReports.note({ kind: eventTypes.parentIgnored, owner: keyId, name: id }, (count) => ({
      severity: 'warning',
      event_type: eventTypes.parentIgnored,
      description: `The agent names ${parent} as its parent; ${why}.`,
      instance_id: id,
      metadata: { named: parent, kept, occurrences: count },
    }))
  }
}
