import { eventColumns, traceLinkOf } from '@wardline/contract'
import { cutText } from '@wardline/text'
import { isoTime } from '../../../clock.ts'
import type { Sender } from './channel.ts'
import type { AlertContext, DeliveredAlert, Message, SuspensionContext } from './message.ts'
import { dashboardLink, nextCommands } from './next-commands.ts'

/** An alert for machines: field names and formats of a stored event, with marks for what was left out. */
export interface MachineRow extends Omit<DeliveredAlert, 'metadata' | 'created_at' | keyof AlertContext> {
  metadata?: DeliveredAlert['metadata']
  metadata_omitted?: true
  description_cut?: true
  /** ISO 8601, UTC. */
  created_at: string
  context_omitted?: true
}

/** Context that a machine needs to act on the alert. */
export interface MachineContext extends Omit<AlertContext, 'suspension' | 'open'> {
  suspension: (Omit<SuspensionContext, 'at'> & { at: string | null }) | null
  /** Commands for a person, the most urgent first. */
  next: string[]
  /** Link to the dashboard; absent without WARDLINE_PUBLIC_URL. */
  url?: string
  /** Link to the trace of the event; absent without WARDLINE_TRACE_URL, or where the event has no trace. */
  trace_url?: string
}

/** Content of a message without an alert: a test or check. */
export interface MachineTitle {
  title: string
}

/** The fields are in the same order whatever the alert was made of. */
export function rowOf(alert: DeliveredAlert): MachineRow {
  const columns = eventColumns.filter((name) => name !== 'created_at').map((name) => [name, alert[name]])
  return {
    ...Object.fromEntries(columns),
    event_seq: alert.event_seq,
    created_at: isoTime(alert.created_at),
  }
}

/** Lists the fields one by one, so that their order is always the same. */
export function contextOf(
  alert: DeliveredAlert,
  message: Message,
  { publicUrl, traceUrl }: Pick<Sender, 'publicUrl' | 'traceUrl'>,
): MachineContext {
  const { instance_name, tool, decoys, key, suspension } = alert
  const link = dashboardLink(message, publicUrl)
  const trace = traceLinkOf(traceUrl, alert.metadata)
  return {
    instance_name,
    tool,
    decoys: decoys.map(({ id, label, type, key_type, instance_id }) => ({ id, label, type, key_type, instance_id })),
    key: key && { id: key.id, name: key.name },
    suspension: suspension && {
      by: suspension.by,
      at: suspension.at === null ? null : isoTime(suspension.at),
      reason: suspension.reason,
      confirmed: suspension.confirmed,
    },
    next: nextCommands(message),
    ...(link === null ? {} : { url: link }),
    ...(trace === null ? {} : { trace_url: trace }),
  }
}

/** With this length a syslog message fits even if every character of every text takes the longest escape, 12 bytes. */
const fewCharacters = 250

function withoutMetadata({ metadata, ...row }: MachineRow): MachineRow {
  return metadata === null ? { ...row, metadata } : { ...row, metadata_omitted: true }
}

function withShortDescription(row: MachineRow): MachineRow {
  const description = cutText(row.description, fewCharacters)
  return description === row.description ? row : { ...row, description, description_cut: true }
}

/**
 * Writes a message for a receiver that accepts at most `maxBytes` of UTF-8. If it is longer, leaves out the metadata,
 * then cuts the description, then leaves out the context. The row has a mark for each of these.
 */
export function writeBounded(
  message: Message,
  sender: Pick<Sender, 'publicUrl' | 'traceUrl'>,
  maxBytes: number,
  write: (data: (MachineRow & Partial<MachineContext>) | MachineTitle) => string,
): string {
  const [alert] = message.alerts
  if (alert === undefined) return write({ title: message.title })
  const whole = rowOf(alert)
  const shorter = withoutMetadata(whole)
  const shortest = withShortDescription(shorter)
  const context = contextOf(alert, message, sender)
  for (const row of [whole, shorter, shortest]) {
    const text = write({ ...row, ...context })
    if (Buffer.byteLength(text) <= maxBytes) return text
  }
  return write({ ...shortest, context_omitted: true })
}

/** Returns the type of the event; `test` or `check` without an alert. */
export const typeOf = (message: Message): string => message.alerts[0]?.event_type ?? message.kind

/** Returns the time of the alert, or of the message if it has none, in epoch milliseconds. */
export const happenedAt = (message: Message): number => (message.alerts[0] ?? message).created_at
