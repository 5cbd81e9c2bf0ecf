import { isIP } from 'node:net'
import { eventTypes, limits, NewEvent, secondWitness, serviceSource } from '@wardline/contract'
import { AppError } from '../../errors.ts'
import { uuidV7 } from '../../ids.ts'
import { faultFinder } from '../../validation.ts'
import { classifyEvent, countedTool } from './classify.ts'
import type { EventToStore } from './insert-queries.ts'
import { isServiceName } from './service-name.ts'
import { measuredMetricIn, parseSessionMetrics, type SessionMetrics } from './session-metrics.ts'

/** Returns a sentence that says why a value is not an event; undefined for an event. */
export const eventFault = faultFinder(NewEvent, 'The event')

/** Only the service says this of a report: rules do not see such events. */
function withMark(metadata: Record<string, unknown>, isSecond: boolean): Record<string, unknown> {
  if (!isSecond && metadata[secondWitness] === undefined) return metadata
  const { [secondWitness]: _claimed, ...own } = metadata
  return isSecond ? { ...own, [secondWitness]: true } : own
}

function metadataText(metadata: NewEvent['metadata']): string | null {
  if (metadata === undefined) return null
  const text = JSON.stringify(metadata)
  if (text.length * 3 > limits.metadataBytes && Buffer.byteLength(text) > limits.metadataBytes) {
    throw new AppError('invalid', `metadata must have at most ${limits.metadataBytes / 1024} KiB as JSON.`)
  }
  return text
}

function addressesOf(given: string | undefined, clientAddress: string | null, by_service: 0 | 1) {
  if (given === undefined) return { ip_address: clientAddress, observed_ip_address: null }
  if (isIP(given) === 0) throw new AppError('invalid', 'ip_address must be an IP address.')
  const isObserved = by_service === 1 || given === clientAddress
  return { ip_address: given, observed_ip_address: isObserved ? null : (clientAddress ?? '') }
}

function metricsOf({ event_type, description }: NewEvent, by_service: 0 | 1): SessionMetrics | undefined {
  if (event_type !== eventTypes.sessionMetrics) return undefined
  const metrics = parseSessionMetrics(description)
  if (typeof metrics === 'string') throw new AppError('invalid', metrics)
  // An agent could else teach a baseline what it may use.
  const measured = by_service === 0 ? measuredMetricIn(metrics) : undefined
  if (measured !== undefined) {
    throw new AppError(
      'invalid',
      `The description of session_metrics must not contain ${measured}: only the model gateway measures it.`,
    )
  }
  return metrics
}

function toRow(
  report: NewEvent,
  by_service: 0 | 1,
  clientAddress: string | null,
  now: number,
  isSecond = false,
): EventToStore {
  return {
    id: uuidV7(now),
    seq: 0,
    created_at: now,
    severity: report.severity,
    class: isSecond ? 'none' : classifyEvent(report.event_type, report.metadata),
    tool: isSecond ? null : countedTool(report.event_type, report.metadata),
    source: report.source,
    event_type: report.event_type,
    description: report.description,
    instance_id: report.instance_id ?? null,
    session_id: report.session_id ?? null,
    ...addressesOf(report.ip_address, clientAddress, by_service),
    metadata: metadataText(report.metadata && withMark(report.metadata, isSecond)),
    by_service,
    metrics: metricsOf(report, by_service),
    isSecond,
  }
}

/**
 * Converts a report that matches its schema to a row. `isSecond`: telemetry of a call that a client of the agent reported.
 * Throws AppError `invalid` for rules beyond the schema.
 */
export function eventToStore(
  report: NewEvent,
  clientAddress: string | null,
  now: number,
  isSecond?: boolean,
): EventToStore {
  if (isServiceName(report.source)) {
    throw new AppError(
      'invalid',
      `source must not be ${serviceSource}: only the service itself reports under that name.`,
    )
  }
  return toRow(report, 0, clientAddress, now, isSecond)
}

/** An event reported by the service itself. */
export type OwnEvent = Omit<NewEvent, 'source'>

export const ownEventToStore = (event: OwnEvent, now: number): EventToStore =>
  toRow({ ...event, source: serviceSource }, 1, null, now)
