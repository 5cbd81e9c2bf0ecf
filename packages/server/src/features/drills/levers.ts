import { type Lever, offlineAfterMs } from '@wardline/contract'
import { dayMs, isoTimeOrNull } from '../../clock.ts'
import { allowedById } from '../../config/enforcement-points.ts'
import type { Deps } from '../../deps.ts'
import { unknownInstance } from '../../errors.ts'
import { findListening } from '../control/stream-statements.ts'
import { readLastConfirmed } from '../enforcement/call-statements.ts'
import type { Enforcement } from '../enforcement/enforcement.ts'
import { readReach } from '../instances/reach-statements.ts'
import { readProofs } from '../suspensions/suspension-statements.ts'

/** An agent that called no model for longer may call it another way by now. */
const modelForMs = dayMs

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
      const points = allowedPoints(enforcement.points, { id, tags: reach.tags })
      const [proofs, listening, confirmedAt] = await Promise.all([
        readProofs(database.db, id),
        findListening(database, [id], now),
        points.length === 0 ? null : readLastConfirmed(database.db, id, points),
      ])
      const isSince = (at: number | null, ms: number) => at !== null && now - at <= ms
      const isListening = listening.length > 0
      // A drill comes over the stream; so does a suspension that was acknowledged, while one is open.
      const levers: [kind: Lever['kind'], isThere: boolean, provenAt: number | null][] = [
        ['process', isSince(reach.supervisedAt, offlineAfterMs), latest(proofs.supervisor, reach.supervisorProvenAt)],
        ['model', isSince(reach.modelCalledAt, modelForMs), proofs.gateway],
        ['enforcement', points.length > 0, confirmedAt],
        ['control_stream', isListening, latest(proofs.stream, reach.provenAt)],
        ['poll', true, proofs.poll],
      ]
      return levers.flatMap(([kind, isThere, provenAt]) =>
        isThere ? [{ kind, last_proven_at: isoTimeOrNull(provenAt) }] : [],
      )
    },
  }
}

const allowedPoints = (points: Enforcement['points'], agent: { id: string; tags: readonly string[] }): string[] =>
  points
    .filter(({ actions }) => actions.includes('suspend'))
    .filter((point) => allowedById(point, [agent]).length > 0)
    .filter(({ tags }) => !tags || tags.some((tag) => agent.tags.includes(tag)))
    .map(({ name }) => name)
