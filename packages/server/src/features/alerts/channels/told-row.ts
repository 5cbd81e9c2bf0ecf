import { isoTime } from '../../../clock.ts'
import type { Message, ToldAlert } from '../message.ts'
import { cutText } from './cut-text.ts'

/** An alert as machines get it: the names and forms of a stored event, and how it was shortened. */
export interface ToldRow extends Omit<ToldAlert, 'metadata' | 'created_at'> {
  metadata?: ToldAlert['metadata']
  metadata_omitted?: true
  description_cut?: true
  /** ISO 8601, UTC. */
  created_at: string
}

/** What there is to tell where no alert is: tests and checks. */
export interface ToldTitle {
  title: string
}

/** Written out, so that the order of the fields is always the same. */
export function rowOf(alert: ToldAlert): ToldRow {
  return {
    id: alert.id,
    seq: alert.seq,
    severity: alert.severity,
    source: alert.source,
    by_service: alert.by_service,
    event_type: alert.event_type,
    description: alert.description,
    instance_id: alert.instance_id,
    session_id: alert.session_id,
    ip_address: alert.ip_address,
    metadata: alert.metadata,
    event_seq: alert.event_seq,
    created_at: isoTime(alert.created_at),
  }
}

/** So few that a syslog message fits even when every character of every text takes the longest escape, 12 bytes. */
const fewCharacters = 250

function withoutMetadata({ metadata, ...row }: ToldRow): ToldRow {
  return metadata === null ? { ...row, metadata } : { ...row, metadata_omitted: true }
}

function withShortDescription(row: ToldRow): ToldRow {
  const description = cutText(row.description, fewCharacters, () => 1)
  return description === row.description ? row : { ...row, description, description_cut: true }
}

/**
 * Writes what a machine is told, for a receiver that takes at most `mostBytes` of UTF-8: else without metadata, and if
 * that is still too long with the beginning of the description. What was left out is said in the row.
 */
export function writeFitting(
  message: Message,
  mostBytes: number,
  write: (told: ToldRow | ToldTitle) => string,
): string {
  const [alert] = message.alerts
  if (alert === undefined) return write({ title: message.title })
  const whole = rowOf(alert)
  const shorter = withoutMetadata(whole)
  const fits = (text: string): boolean => Buffer.byteLength(text) <= mostBytes
  return [whole, shorter].map(write).find(fits) ?? write(withShortDescription(shorter))
}

/** Type of what a machine is told: that of the event; `test` and `check` where no alert is. */
export const toldType = (message: Message): string => message.alerts[0]?.event_type ?? message.kind

/** When it happened, in epoch milliseconds. */
export const toldAt = (message: Message): number => (message.alerts[0] ?? message).created_at
