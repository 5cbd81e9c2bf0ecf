import { eventTypes, type SupervisorReach } from '@wardline/contract'
import { GroupCommit } from '../../db/group-commit.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import {
  type AnswerCells,
  provenStatement,
  type SupervisorCells,
  supervisorProvenStatement,
} from '../instances/drill-statements.ts'
import { answersStatement, supervisorAnswersStatement, wasAnswered, wasSupervisorHeard } from './queries.ts'

export interface Answer {
  instanceId: string
  nonce: string
  keyId: string
  /** Only from a key of a supervisor. */
  supervisor?: SupervisorReach | undefined
  at: number
}

export type DrillAnswers = ReturnType<typeof createDrillAnswers>

/** An id, a nonce, a time and two counts. */
const answerBytes = 170

const nameOf = (instanceId: unknown, nonce: unknown) => `${instanceId} ${nonce}`

/**
 * Returns the first answer per nonce, as a statement must not change a row twice, in the order of ids: two processes that
 * lock the same rows in different orders could deadlock.
 */
function firstOfEach(answers: readonly Answer[]): Answer[] {
  const first = new Map<string, Answer>()
  for (const answer of answers) {
    const name = nameOf(answer.instanceId, answer.nonce)
    if (!first.has(name)) first.set(name, answer)
  }
  return [...first.values()].toSorted((one, other) => (one.instanceId < other.instanceId ? -1 : 1))
}

/** Returns the answers that these rows name. */
function named(answers: readonly Answer[], rows: readonly Record<string, unknown>[]): Answer[] {
  const names = new Set(rows.map(({ instance_id, nonce }) => nameOf(instance_id, nonce)))
  return answers.filter(({ instanceId, nonce }) => names.has(nameOf(instanceId, nonce)))
}

function reportIncomplete(
  countedReports: Pick<CountedReports, 'note'>,
  { keyId, instanceId }: Pick<Answer, 'keyId' | 'instanceId'>,
  { processes, unreachable }: SupervisorReach,
): void {
  const kind = eventTypes.supervisorIncomplete
  countedReports.note({ kind, owner: keyId, name: instanceId }, (occurrences) => ({
    severity: 'warning',
    event_type: kind,
    description: `In a drill its supervisor could not reach ${unreachable} of ${processes} processes`,
    instance_id: instanceId,
    metadata: { processes, unreachable, occurrences },
  }))
}

/** Answers share commits, because a thousand agents of a drill answer at the same time. */
export function createDrillAnswers(
  { config, database, clock, metrics }: Deps,
  { countedReports }: { countedReports: Pick<CountedReports, 'note'> },
) {
  const queue = new GroupCommit<Answer, boolean>({
    queue: 'drills',
    clock,
    metrics,
    weigh: ({ keyId }) => ({ rows: 1, bytes: answerBytes, owner: keyId }),
    async commit(answers) {
      const first = firstOfEach(answers)
      const supervised = firstOfEach(answers.filter(({ supervisor }) => supervisor !== undefined))
      const cells = first.map(({ instanceId, nonce, at }): AnswerCells => [instanceId, nonce, at])
      const supervisorCells = supervised.map(
        ({ instanceId, nonce, at, supervisor }): SupervisorCells => [
          instanceId,
          nonce,
          at,
          supervisor!.processes,
          supervisor!.unreachable,
        ],
      )
      const withinMs = config.drillAnswerSeconds * 1_000
      const [taken, heard] = await database.batch([
        answersStatement(database, cells, withinMs),
        supervisorAnswersStatement(database, supervisorCells, withinMs),
        provenStatement(database, cells, wasAnswered),
        supervisorProvenStatement(database, supervisorCells, wasSupervisorHeard),
      ])
      const right = new Set([...named(first, taken!), ...named(supervised, heard!)])
      return answers.map((answer) => right.has(answer))
    },
  })
  return {
    /** Records that the agent received a drill. Rejects with AppError `conflict` if the nonce is not pending. */
    async answer(given: Omit<Answer, 'at'>): Promise<void> {
      const isRight = await queue.add({ ...given, at: clock.now() })
      metrics.drills.inc({ result: isRight ? 'answered' : 'refused' })
      if (isRight) {
        if (given.supervisor && given.supervisor.unreachable > 0)
          reportIncomplete(countedReports, given, given.supervisor)
        return
      }
      throw new AppError(
        'conflict',
        'nonce is not that of an open drill of this instance: it is wrong, was answered already, or is older than 30 seconds. The next drill brings another one.',
      )
    },
    whenIdle: () => queue.whenIdle(),
  }
}
