import { GroupCommit } from '../../db/group-commit.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { type AnswerCells, provenStatement } from '../instances/drill-statements.ts'
import { answersStatement, wasAnswered } from './queries.ts'

export interface Answer {
  instanceId: string
  nonce: string
  keyId: string
  at: number
}

export type DrillAnswers = ReturnType<typeof createDrillAnswers>

/** An id, a nonce and a time. */
const answerBytes = 150

/** Answers share commits, because a thousand agents of a drill answer at the same time. */
export function createDrillAnswers({ config, database, clock, metrics }: Deps) {
  const queue = new GroupCommit<Answer, boolean>({
    queue: 'drills',
    clock,
    metrics,
    weigh: ({ keyId }) => ({ rows: 1, bytes: answerBytes, owner: keyId }),
    async commit(answers) {
      // A statement must not change a row twice, so only the first answer per nonce is used.
      const first = new Map<string, Answer>()
      for (const answer of answers) {
        const name = `${answer.instanceId} ${answer.nonce}`
        if (!first.has(name)) first.set(name, answer)
      }
      // In the order of ids: two processes that lock the same rows in different orders could deadlock.
      const cells = [...first.values()]
        .map(({ instanceId, nonce, at }): AnswerCells => [instanceId, nonce, at])
        .toSorted(([one], [other]) => (one < other ? -1 : 1))
      const [taken] = await database.batch([
        answersStatement(database, cells, config.drillAnswerSeconds * 1_000),
        provenStatement(database, cells, wasAnswered),
      ])
      const right = new Set(taken!.map(({ instance_id, nonce }) => `${instance_id} ${nonce}`))
      return answers.map((answer) => {
        const name = `${answer.instanceId} ${answer.nonce}`
        return first.get(name) === answer && right.has(name)
      })
    },
  })
  return {
    /** Records that the agent received a drill. Rejects with AppError `conflict` if the nonce is not pending. */
    async answer(given: Omit<Answer, 'at'>): Promise<void> {
      const isRight = await queue.add({ ...given, at: clock.now() })
      metrics.drills.inc({ result: isRight ? 'answered' : 'refused' })
      if (isRight) return
      throw new AppError(
        'conflict',
        'nonce is not that of an open drill of this instance: it is wrong, was answered already, or is older than 30 seconds. The next drill brings another one.',
      )
    },
    whenIdle: () => queue.whenIdle(),
  }
}
