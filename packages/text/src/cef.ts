import { isIPv4 } from 'node:net'
import { cutText } from './cut-text.ts'
import { sanitize } from './sanitize.ts'

// ArcSight Common Event Format, implementation standard (OpenText): seven header fields with `\` and `|` escaped, then
// key=value pairs with `\`, `=` and line ends escaped. Severity is 0 to 10: 0-3 low, 4-6 medium, 7-8 high, 9-10 very
// high. Custom strings have at most 4,000 characters.
const severities = { info: 2, warning: 5, critical: 8, breach: 10 }
const customStringCharacters = 4_000

/** Pairs without a value are left out of the line. */
export type CefPair = [key: string, value: string | number | null | undefined]

/** Returns the label and value pairs of a custom string; none without a value. */
export const cefCustom = (number: number, label: string, value: string | null | undefined): CefPair[] =>
  value === null || value === undefined
    ? []
    : [
        [`cs${number}Label`, label],
        [`cs${number}`, cutText(value, customStringCharacters)],
      ]

/** Returns the pairs of a source address. CEF has separate fields for IPv4 and IPv6. */
export function cefAddress(address: string | null): CefPair[] {
  if (address === null) return []
  if (isIPv4(address)) return [['src', address]]
  return [
    ['c6a2Label', 'Source IPv6 Address'],
    ['c6a2', address],
  ]
}

const header = (text: string): string => sanitize(text).replaceAll('\\', '\\\\').replaceAll('|', '\\|')

const extension = (text: string): string =>
  text
    .split(/\r\n|\r|\n/)
    .map(sanitize)
    .join('\n')
    .replaceAll('\\', '\\\\')
    .replaceAll('=', '\\=')
    .replaceAll('\n', '\\n')

export interface CefEntry {
  /** Version of the product. */
  version: string
  /** Signature id. */
  type: string
  name: string
  severity: keyof typeof severities
  pairs: readonly CefPair[]
}

/** Formats one CEF line without a line end. */
export function cefLine({ version, type, name, severity, pairs }: CefEntry): string {
  const head = ['Wardline', 'Wardline', version, type, name].map(header).join('|')
  const text = pairs
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([key, value]) => `${key}=${extension(String(value))}`)
    .join(' ')
  return `CEF:0|${head}|${severities[severity]}|${text}`
}
