import { oneOf, searchParams, text } from '../data/search-params.ts'

/** Lengths of the timeline. */
export const timelineHours = [1, 6, 24] as const
export type TimelineHours = (typeof timelineHours)[number]

export const agentSearch = searchParams({
  /** Length of the timeline. */
  hours: oneOf(timelineHours),
  /** The baseline that is open. */
  metric: text,
})
