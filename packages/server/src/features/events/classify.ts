import { eventTypes, isBlocked, knownTools, toolOf } from '@wardline/contract'
import type { EventClass } from '../../db/schema/events.ts'

type Metadata = Record<string, unknown> | undefined

/**
 * Returns the class of an event: an injection block, else blocked (by its type or its metadata), else none. Injection
 * blocks are also counted as blocked.
 */
export function classifyEvent(eventType: string, metadata: Metadata): EventClass {
  if (eventType === eventTypes.injectionDetected || eventType === eventTypes.injectionBlocked) return 'injection'
  return isBlocked(eventType, metadata) ? 'blocked' : 'none'
}

/** Tools by which tool_call events are counted; all others count as `other`. */
export const countedTools = [...knownTools, 'other'] as const

/** Returns the tool for which an event is counted: a known one, else `other`; null unless it is a tool_call. */
export function countedTool(eventType: string, metadata: Metadata): string | null {
  if (eventType !== eventTypes.toolCall) return null
  const name = toolOf(metadata)
  return (knownTools as readonly unknown[]).includes(name) ? name : 'other'
}
