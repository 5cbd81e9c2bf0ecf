import { isBlocked } from '@wardline/contract'
import { type CefPair, cefAddress, cefCustom, cefLine, safeJson } from '@wardline/text'
import type { MachineContext, MachineRow, MachineTitle } from './machine-row.ts'
import type { Message } from './message.ts'
import { decoyText } from './message-lines.ts'

// The fields of the event are the same as in the CEF output of `wardline export`.

/** All six custom strings are used, so context goes into the two flexible strings and into fields of the dictionary. */
function contextPairs({ instance_name, decoys = [], suspension, url }: Partial<MachineContext>): CefPair[] {
  const done = suspension && [
    'suspended',
    suspension.by && `by ${suspension.by}`,
    suspension.at && `at ${suspension.at}`,
  ]
  return [
    ['sourceServiceName', instance_name ?? null],
    ['flexString1Label', decoys.length === 0 ? null : 'decoy'],
    ['flexString1', decoys.length === 0 ? null : decoys.map(decoyText).join(', ')],
    ['flexString2Label', done ? 'done' : null],
    ['flexString2', done ? done.filter(Boolean).join(' ') : null],
    ['request', url ?? null],
  ]
}

function alertPairs(row: MachineRow & Partial<MachineContext>): CefPair[] {
  const metadata = row.metadata ?? null
  const isPrevented = isBlocked(row.event_type, metadata)
  return [
    ['rt', Date.parse(row.created_at)],
    ['externalId', row.id],
    ['cat', row.severity],
    ['msg', row.description],
    ['act', isPrevented ? 'blocked' : null],
    ...cefAddress(row.observed_ip_address),
    ...cefCustom(1, 'instance', row.instance_id),
    ...cefCustom(2, 'session', row.session_id),
    ...cefCustom(3, 'source', row.source),
    ...cefCustom(4, 'tool', row.tool ?? null),
    ...cefCustom(5, 'metadata', metadata && safeJson(metadata)),
    ...cefCustom(6, 'by_service', String(row.by_service)),
    ['cn1Label', 'seq'],
    ['cn1', row.seq],
    ['cn2Label', row.event_seq === null ? null : 'event_seq'],
    ['cn2', row.event_seq],
    ...contextPairs(row),
  ]
}

const titlePairs = (message: Message): CefPair[] => [
  ['rt', message.created_at],
  ['externalId', message.id],
  ['cat', message.severity],
  ['msg', message.title],
]

/**
 * Returns one line without a line end. `data` is the content of `message`, possibly shortened; `version` is the version
 * of the service.
 */
export function toCef(
  message: Message,
  data: (MachineRow & Partial<MachineContext>) | MachineTitle,
  version: string,
): string {
  const isAlert = 'event_type' in data
  // Event types cannot contain a dot, so a caller's event cannot look like a test or check.
  const type = isAlert ? data.event_type : `channel.${message.kind}`
  return cefLine({
    version,
    type,
    name: type.replaceAll('_', ' '),
    severity: message.severity,
    pairs: isAlert ? alertPairs(data) : titlePairs(message),
  })
}
