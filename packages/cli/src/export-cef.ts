import { isIP } from 'node:net'
import type { EventRow, Severity } from '@wardline/contract'
import { isBlocked, toolOf } from './event-facts.ts'
import { cutText, plainJson, plainText } from './terminal-text.ts'

// ArcSight Common Event Format, implementation standard (OpenText): seven header fields in which `\` and `|` are
// escaped, then key=value pairs in which `\`, `=` and line ends are. Severity is 0 to 10: 0-3 low, 4-6 medium, 7-8 high,
// 9-10 very high. Custom strings hold 4,000 characters.
const severities: Record<Severity, number> = { info: 2, warning: 5, critical: 8, breach: 10 }
const customStringCharacters = 4_000

const header = (text: string): string => plainText(text).replaceAll('\\', '\\\\').replaceAll('|', '\\|')

const extension = (text: string): string =>
  text
    .split(/\r\n|\r|\n/)
    .map(plainText)
    .join('\n')
    .replaceAll('\\', '\\\\')
    .replaceAll('=', '\\=')
    .replaceAll('\n', '\\n')

type Pair = [key: string, value: string | number | null | undefined]

const custom = (number: number, label: string, value: string | null | undefined): Pair[] =>
  value === null || value === undefined
    ? []
    : [
        [`cs${number}Label`, label],
        [`cs${number}`, cutText(value, customStringCharacters)],
      ]

function addressPairs(address: string | null): Pair[] {
  if (address === null) return []
  if (isIP(address) === 4) return [['src', address]]
  return [
    ['c6a2Label', 'Source IPv6 Address'],
    ['c6a2', address],
  ]
}

export function toCef(row: EventRow, version: string): string {
  const name = row.event_type.replaceAll('_', ' ')
  const head = ['Wardline', 'Wardline', version, row.event_type, name].map(header).join('|')
  const pairs: Pair[] = [
    ['rt', Date.parse(row.created_at)],
    ['externalId', row.id],
    ['cat', row.severity],
    ['msg', row.description],
    ['act', isBlocked(row) ? 'blocked' : null],
    ...addressPairs(row.ip_address),
    ...custom(1, 'instance', row.instance_id),
    ...custom(2, 'session', row.session_id),
    ...custom(3, 'source', row.source),
    ...custom(4, 'tool', toolOf(row)),
    ...custom(5, 'metadata', row.metadata === null ? null : plainJson(row.metadata)),
    ['cn1Label', 'seq'],
    ['cn1', row.seq],
  ]
  const text = pairs
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([key, value]) => `${key}=${extension(String(value))}`)
    .join(' ')
  return `CEF:0|${head}|${severities[row.severity]}|${text}\n`
}
