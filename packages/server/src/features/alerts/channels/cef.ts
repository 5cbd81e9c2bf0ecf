import { isIP } from 'node:net'
import { classifyEvent } from '../../events/classify.ts'
import type { Message, Severity } from '../message.ts'
import { cutText } from './cut-text.ts'
import { oneLine, oneLineJson } from './one-line.ts'
import type { ToldRow, ToldTitle } from './told-row.ts'

// ArcSight Common Event Format, implementation standard (OpenText): seven header fields in which `\` and `|` are
// escaped, then key=value pairs in which `\`, `=` and line ends are. Severity is 0 to 10: 0-3 low, 4-6 medium, 7-8 high,
// 9-10 very high. Custom strings hold 4,000 characters. The fields are those that `wardline export` writes.
const severities: Record<Severity, number> = { info: 2, warning: 5, critical: 8, breach: 10 }
const customStringCharacters = 4_000

const header = (text: string): string => oneLine(text).replaceAll('\\', '\\\\').replaceAll('|', '\\|')

const extension = (text: string): string =>
  text
    .split(/\r\n|\r|\n/)
    .map(oneLine)
    .join('\n')
    .replaceAll('\\', '\\\\')
    .replaceAll('=', '\\=')
    .replaceAll('\n', '\\n')

type Pair = [key: string, value: string | number | null]

const custom = (number: number, label: string, value: string | null): Pair[] =>
  value === null
    ? []
    : [
        [`cs${number}Label`, label],
        [`cs${number}`, cutText(value, customStringCharacters, () => 1)],
      ]

function addressPairs(address: string | null): Pair[] {
  if (address === null) return []
  if (isIP(address) === 4) return [['src', address]]
  return [
    ['c6a2Label', 'Source IPv6 Address'],
    ['c6a2', address],
  ]
}

function toolOf(metadata: Record<string, unknown>): string | null {
  const name = metadata.toolName ?? metadata.tool ?? metadata.tool_name
  return typeof name === 'string' && name !== '' ? name : null
}

function alertPairs(row: ToldRow): Pair[] {
  const metadata = row.metadata ?? null
  const isBlocked = classifyEvent(row.event_type, metadata ?? undefined) !== 'none'
  return [
    ['rt', Date.parse(row.created_at)],
    ['externalId', row.id],
    ['cat', row.severity],
    ['msg', row.description],
    ['act', isBlocked ? 'blocked' : null],
    ...addressPairs(row.ip_address),
    ...custom(1, 'instance', row.instance_id),
    ...custom(2, 'session', row.session_id),
    ...custom(3, 'source', row.source),
    ...custom(4, 'tool', metadata && toolOf(metadata)),
    ...custom(5, 'metadata', metadata && oneLineJson(metadata)),
    ...custom(6, 'by_service', String(row.by_service)),
    ['cn1Label', 'seq'],
    ['cn1', row.seq],
    ['cn2Label', row.event_seq === null ? null : 'event_seq'],
    ['cn2', row.event_seq],
  ]
}

const titlePairs = (message: Message): Pair[] => [
  ['rt', message.created_at],
  ['externalId', message.id],
  ['cat', message.severity],
  ['msg', message.title],
]

/** One line without its end. `told` is what `message` tells, perhaps shortened; `version` is that of the service. */
export function toCef(message: Message, told: ToldRow | ToldTitle, version: string): string {
  const isAlert = 'event_type' in told
  // No event type holds a dot: none can pose as a test.
  const type = isAlert ? told.event_type : `channel.${message.kind}`
  const head = ['Wardline', 'Wardline', version, type, type.replaceAll('_', ' ')].map(header).join('|')
  const text = (isAlert ? alertPairs(told) : titlePairs(message))
    .filter(([, value]) => value !== null)
    .map(([key, value]) => `${key}=${extension(String(value))}`)
    .join(' ')
  return `CEF:0|${head}|${severities[message.severity]}|${text}`
}
