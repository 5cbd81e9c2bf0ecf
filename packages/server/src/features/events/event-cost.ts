import { limits } from '@wardline/contract'
import type { BatchItem } from './batch.ts'
import type { EventToStore } from './insert-queries.ts'

// Fixed columns and JSON punctuation weigh about this much beside the texts.
const rowOverheadBytes = 200

/** Bytes that an event takes in memory, roughly. */
export const eventBytes = ({ description, metadata }: EventToStore): number =>
  rowOverheadBytes + description.length + (metadata?.length ?? 0)

/** What must not wait behind ordinary events: breaches, critical events, and what the service itself reports. */
export const isUrgent = ({ severity, by_service }: EventToStore): boolean => isCritical(severity) || by_service === 1

const isCritical = (severity: unknown): boolean => severity === 'breach' || severity === 'critical'

/** Critical events and breaches in a batch that is not parsed yet. */
export function countCritical(items: readonly BatchItem[]): number {
  let count = 0
  for (const item of items) {
    if ('value' in item && isCritical((item.value as { severity?: unknown } | null)?.severity)) count += 1
  }
  return count
}

const typeWord = Buffer.from('"event_type"')

/** How many events a batch seems to hold, without reading it. */
export function estimateEvents(text: Buffer): number {
  let count = 0
  for (let at = text.indexOf(typeWord); at >= 0 && count < limits.batchEvents; at = text.indexOf(typeWord, at + 1)) {
    count += 1
  }
  return count
}

const criticalWords = ['"breach"', '"critical"'].map((word) => Buffer.from(word))

/** Whether a batch may hold critical events, without reading it. */
export const mayBeCritical = (text: Buffer): boolean => criticalWords.some((word) => text.includes(word))
