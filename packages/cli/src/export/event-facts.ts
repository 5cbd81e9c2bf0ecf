import { type EventRow, eventTypes } from '@wardline/contract'

/** The tool of an event, by the names that the service knows it by. */
export function toolOf({ metadata }: EventRow): string | undefined {
  const name = metadata?.toolName ?? metadata?.tool ?? metadata?.tool_name
  return typeof name === 'string' && name !== '' ? name : undefined
}

/** Whether something was kept from happening, as the service counts it. */
export const isBlocked = ({ event_type, metadata }: EventRow): boolean =>
  event_type === eventTypes.injectionDetected || event_type.endsWith('_blocked') || metadata?.blocked === true
