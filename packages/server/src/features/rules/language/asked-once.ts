import { createHash } from 'node:crypto'
import type { Slices, WorkBudget } from '../../../work-turns.ts'

/** A question about an event. `work` counts what the answer costs. */
export interface Question<Event extends object, Answer> {
  (event: Event, work?: WorkBudget): Answer
  /** Units of work that an answer costs at worst; undefined: next to nothing. */
  units?: number | undefined
  /** Answers in slices, where one answer may cost much of a slice. */
  inSlices?: ((event: Event, work: WorkBudget) => Slices<Answer>) | undefined
}

/** Maximum shared predicates: fleets have some dozens of fields. Beyond it, newer rules only share among themselves. */
const maxQuestions = 1_000
const questions = new Map<string, unknown>()

/**
 * A predicate on events, shared by all rules that use the same one. It caches the result for the last event, so that an
 * event is read once for any number of rules.
 */
export function askedOnce<Event extends object, Answer>(
  name: string,
  ask: Question<Event, Answer>,
): Question<Event, Answer> {
  const key = createHash('sha256').update(name).digest('base64')
  const known = questions.get(key)
  if (known) return known as Question<Event, Answer>
  let last: Event | undefined
  let answer: Answer
  const question: Question<Event, Answer> = (event, work) => {
    if (event !== last) {
      answer = ask(event, work)
      last = event
    }
    return answer
  }
  const { inSlices } = ask
  question.units = ask.units
  if (inSlices) {
    question.inSlices = function* (event, work) {
      if (event === last) return answer
      // Another event may be asked about between the slices.
      const found = yield* inSlices(event, work)
      answer = found
      last = event
      return found
    }
  }
  if (questions.size >= maxQuestions) questions.clear()
  questions.set(key, question)
  return question
}
