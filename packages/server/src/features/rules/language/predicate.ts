import type { Slices, WorkBudget } from '../../../work-turns.ts'
import type { Question } from './asked-once.ts'
import { costlyUnits } from './cost.ts'
import { type RuleEvent, takeWalked } from './fields.ts'

/** A test of an event. */
export interface Predicate {
  matches: Matches
  /** Returns the test that remains for events of a kind, or its result if the kind alone decides. */
  ofKind(kind: EventKind): boolean | Matches
  /** Types and tools that it distinguishes, in lower case: all others are one kind. */
  names: ReadonlySet<string>
}

export type Matches = Question<RuleEvent, boolean>

/** Answers after a yield if the slice is over, and in slices if an answer may cost much of one. */
export function* asked(matches: Matches, event: RuleEvent, work: WorkBudget): Slices<boolean> {
  if (work.isSliceOver()) yield
  const answer = matches.inSlices ? yield* matches.inSlices(event, work) : matches(event, work)
  work.count(takeWalked())
  return answer
}

export const unitsOfAll = (questions: readonly Matches[]): number =>
  questions.reduce((sum, { units = 0 }) => sum + units, 0)

/** Whether the answers to all of the questions may cost much of a slice. */
export const isCostly = (questions: readonly Matches[]): boolean => unitsOfAll(questions) > costlyUnits

/** Type and tool of an event, in lower case; null: one that no rule names. */
export interface EventKind {
  event_type: string | null
  tool: string | null | undefined
}

export const noNames: ReadonlySet<string> = new Set()
