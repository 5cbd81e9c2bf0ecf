import { createHash } from 'node:crypto'

type Question<Event extends object, Answer> = (event: Event) => Answer

/** Questions that rules share: fleets have some dozens of fields. Beyond, newer rules share with each other alone. */
const maxQuestions = 1_000
const questions = new Map<string, unknown>()

/**
 * A question about an event, shared by all rules that ask one of this name: the last event that it was asked about is
 * remembered with its answer, so that an event is read once, however many rules look at it.
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
