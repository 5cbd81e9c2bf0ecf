import { dayMs } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import { findOpenIds, type ProblemState, readProblemStates } from './outbox/queries.ts'

type Problem = Pick<ProblemState, 'event_type' | 'instance_id' | 'by_service'>

const nameOf = ({ event_type, instance_id, by_service }: Problem) => `${by_service} ${event_type} ${instance_id ?? ''}`

export interface HandledProblems {
  /** Whether a person acknowledged or resolved the problem after its last event. */
  isHandled(problem: Problem & { last_at: number }): boolean
  /** Returns the newest open alert of each of these problems, in their order. */
  openAlerts(problems: readonly Problem[]): Promise<(string | null)[]>
}

/** Reads what people did about the critical alerts and breaches of 24 hours. */
export async function readHandledProblems(db: Db, now: number): Promise<HandledProblems> {
  const states = new Map((await readProblemStates(db, now - dayMs)).map((state) => [nameOf(state), state]))
  return {
    isHandled(problem) {
      const state = states.get(nameOf(problem))
      return state !== undefined && state.open_seq === null && (state.handled_at ?? 0) >= problem.last_at
    },
    async openAlerts(problems) {
      const seqs = problems.map((problem) => states.get(nameOf(problem))?.open_seq ?? null)
      const ids = await findOpenIds(
        db,
        seqs.flatMap((seq) => seq ?? []),
      )
      return seqs.map((seq) => ids.get(seq ?? 0) ?? null)
    },
  }
}
