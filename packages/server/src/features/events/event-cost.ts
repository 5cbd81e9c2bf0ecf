import { limits } from '@wardline/contract'
import type { BatchItem } from './batch.ts'
import type { EventToStore } from './insert-queries.ts'

// Approximate size of fixed columns and JSON punctuation, besides the texts.
const rowOverheadBytes = 200

/** Approximate size of an event in memory, in bytes. */
export const eventBytes = ({ description, metadata }: EventToStore): number =>
  rowOverheadBytes + description.length + (metadata?.length ?? 0)

/** Whether the event must not wait behind ordinary ones: breaches, critical events, and reports by the service. */
export const isUrgent = ({ severity, by_service }: EventToStore): boolean => isCritical(severity) || by_service === 1

const isCritical = (severity: unknown): boolean => severity === 'breach' || severity === 'critical'

/** Counts critical events and breaches in a batch whose values are not validated yet. */
export function countCritical(items: readonly BatchItem[]): number {
  let count = 0
  for (const item of items) {
    if ('value' in item && isCritical((item.value as { severity?: unknown } | null)?.severity)) count += 1
  }
  return count
}

const typeWord = Buffer.from('"event_type"')

/** Estimates the number of events in a batch without parsing it. */
export function estimateEvents(text: Buffer): number {
  let count = 0
  for (let at = text.indexOf(typeWord); at >= 0 && count < limits.batchEvents; at = text.indexOf(typeWord, at + 1)) {
    count += 1
  }
  return count
}

const criticalWords = ['"breach"', '"critical"'].map((word) => Buffer.from(word))

/** Whether a batch may contain critical events, without parsing it. */
export const mayBeCritical = (text: Buffer): boolean => criticalWords.some((word) => text.includes(word))
