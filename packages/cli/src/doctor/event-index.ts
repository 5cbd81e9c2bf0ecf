import { Failure } from '../exit.ts'
import type { Service } from '../service/service.ts'
import { type Check, ok, skip, warn } from './check.ts'

const name = 'event index'
/** A person waits for the result; half a million events are checked in this time. */
const budgetMs = 5_000

/** Checks the newest events of the index that lists by agent, session and type use. The service adds what is missing. */
export async function checkEventIndex({ call, key }: Service): Promise<Check> {
  if (key === undefined) return skip(name, 'The index of events cannot be checked without a key.')
  const until = performance.now() + budgetMs
  let [checked, missing] = [0, 0]
  let body: { before?: number } = {}
  let isComplete = false
  try {
    while (!isComplete && performance.now() < until) {
      const page = await call('checkEventIndex', { body })
      checked += page.checked
      missing += page.missing
      if (page.next === null) isComplete = true
      else body = { before: page.next }
    }
  } catch (fault) {
    if (fault instanceof Failure) return skip(name, `The index of events cannot be checked: ${fault.message}`)
    throw fault
  }
  const range = isComplete ? `all ${checked} events` : `the newest ${checked} events`
  if (missing === 0) return ok(name, `Lists by agent, session and type have ${range}.`)
  return warn(
    name,
    `Of ${range}, ${missing} were missing in lists by agent, session or type and were added.`,
    'Run wardline doctor again: if events are missing again, report it with the log of the service.',
  )
}
