import { isIP } from 'node:net'
import { eventTypes, limits, type NewEvent } from '@wardline/contract'
import { AppError } from '../../errors.ts'
import { uuidV7 } from '../../ids.ts'
import { parseSessionMetrics } from '../detection/anomaly.ts'
import { classifyEvent, countedTool } from './classify.ts'
import type { EventToStore } from './insert-queries.ts'

function metadataText(metadata: NewEvent['metadata']): string | null {
  if (metadata === undefined) return null
  const text = JSON.stringify(metadata)
  if (text.length * 3 > limits.metadataBytes && Buffer.byteLength(text) > limits.metadataBytes) {
    throw new AppError('invalid', `metadata must have at most ${limits.metadataBytes / 1024} KiB as JSON.`)
  }
  return text
}

function address(given: string | undefined, clientAddress: string | null): string | null {
  if (given === undefined) return clientAddress
  if (isIP(given) === 0) throw new AppError('invalid', 'ip_address must be an IP address.')
  return given
}

/**
 * Turns a report that fits its schema into a row. `clientAddress` is null for what the service reports itself.
 * Throws AppError `invalid` for what the schema cannot say.
 */
export function eventToStore(report: NewEvent, clientAddress: string | null, now: number): EventToStore {
  if (report.event_type === eventTypes.sessionMetrics) {
    const metrics = parseSessionMetrics(report.description)
    if (typeof metrics === 'string') throw new AppError('invalid', metrics)
  }
  return {
    id: uuidV7(now),
    created_at: now,
    severity: report.severity,
    class: classifyEvent(report.event_type, report.metadata),
    tool: countedTool(report.event_type, report.metadata),
    source: report.source,
    event_type: report.event_type,
    description: report.description,
    instance_id: report.instance_id ?? null,
    session_id: report.session_id ?? null,
    ip_address: address(report.ip_address, clientAddress),
    metadata: metadataText(report.metadata),
  }
}
