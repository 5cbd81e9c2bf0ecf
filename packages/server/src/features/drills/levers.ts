import type { EnforcingLever, Lever } from '@wardline/contract'
import { isoTimeOrNull } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import { unknownInstance } from '../../errors.ts'
import { findListening } from '../control/stream-statements.ts'
import { readLastConfirmed } from '../enforcement/call-statements.ts'
import type { Enforcement } from '../enforcement/enforcement.ts'
import { enforcingLevers, pointsFor } from '../instances/enforcing-levers.ts'
import { readReach } from '../instances/reach-statements.ts'
import { readProofs } from '../suspensions/suspension-statements.ts'

const latest = (...times: (number | null)[]): number | null => {
  const known = times.filter((time) => time !== null)
  return known.length === 0 ? null : Math.max(...known)
}

/** Reads what a suspension of an agent reaches now. */
export function createLevers(
  { database, clock }: Pick<Deps, 'database' | 'clock'>,
  { enforcement }: { enforcement: Pick<Enforcement, 'points'> },
) {
  return {
    /** Returns the levers, the strongest first. Throws AppError `not_found`. */
    async read(id: string): Promise<Lever[]> {
      const now = clock.now()
      const reach = await readReach(database.db, id)
      if (!reach) throw unknownInstance(id)
      const points = pointsFor(enforcement.points, { id, tags: reach.tags })
      const names = points.map(({ name }) => name)
      const [proofs, listening, confirmedAt] = await Promise.all([
        readProofs(database.db, id),
        findListening(database, [id], now),
        names.length === 0 ? null : readLastConfirmed(database.db, id, names),
      ])
      const provenAt: Record<EnforcingLever, number | null> = {
        process: latest(proofs.supervisor, reach.supervisorProvenAt),
        model: latest(proofs.gateway, reach.modelProvenAt),
        enforcement: confirmedAt,
      }
      const lever = (kind: Lever['kind'], at: number | null): Lever => ({ kind, last_proven_at: isoTimeOrNull(at) })
      return [
        ...enforcingLevers(reach, points, now).map((kind) => lever(kind, provenAt[kind])),
        // A drill comes over the stream; so does a suspension that was acknowledged, while one is open.
        ...(listening.length > 0 ? [lever('control_stream', latest(proofs.stream, reach.provenAt))] : []),
        ...(reach.isObserved ? [] : [lever('poll', proofs.poll)]),
      ]
    },
  }
}
