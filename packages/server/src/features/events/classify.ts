import { eventTypes, isBlocked, knownTools, toolOf } from '@wardline/contract'
import type { EventClass } from '../../db/schema/events.ts'

type Metadata = Record<string, unknown> | undefined

/**
 * What an event counts as besides its severity: an injection block; else blocked, by its type or because its
 * metadata says so; else none. An injection block counts as blocked as well.
 */
export function classifyEvent(eventType: string, metadata: Metadata): EventClass {
  if (eventType === eventTypes.injectionDetected || eventType === eventTypes.injectionBlocked) return 'injection'
  return isBlocked(eventType, metadata) ? 'blocked' : 'none'
}

/** Tools that tool_call events are counted by; all others are `other`. */
export const countedTools = [...knownTools, 'other'] as const

/** The tool that a tool_call event counts for: a known one, "other" for the rest, null for other events. */
export function countedTool(eventType: string, metadata: Metadata): string | null {
  if (eventType !== eventTypes.toolCall) return null
  const name = toolOf(metadata)
  return (knownTools as readonly unknown[]).includes(name) ? name : 'other'
}
