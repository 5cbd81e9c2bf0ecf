import { createHash } from 'node:crypto'

type Question<Event extends object, Answer> = (event: Event) => Answer

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
  const question: Question<Event, Answer> = (event) => {
    if (event !== last) {
      answer = ask(event)
      last = event
    }
    return answer
  }
  if (questions.size >= maxQuestions) questions.clear()
  questions.set(key, question)
  return question
}
