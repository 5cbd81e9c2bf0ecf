import type { HitForm } from '@wardline/contract'

/** Characters before a key that are inspected to recognize its use. */
const shownBefore = 200

const placesBefore: [HitForm, RegExp][] = [
  ['json', /["'][\w.-]{1,100}["']\s?:\s?["']$/],
  ['header', /\b(?:bearer|basic|token)\s$|(?:^|[\s"'])(?:[a-z-]{0,40}(?:authorization|api-key|token|auth))\s?:\s?$/i],
  ['url', /\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s"']*$/i],
  ['env', /(?:^|\s)[A-Za-z_]\w{0,99}\s?=\s?["']?$/],
]

function placeOf(text: string, value: string, at: number): HitForm {
  if (text.trim() === value) return value.includes('://') ? 'url' : 'bare'
  const line = text
    .slice(Math.max(0, at - shownBefore), at)
    .split('\n')
    .at(-1)!
  return placesBefore.find(([, pattern]) => pattern.test(line))?.[0] ?? 'text'
}

/**
 * Returns the middle of each base64 text that contains the value, one for each position within a group of three bytes.
 */
function base64Of(value: string): string[] {
  const bytes = Buffer.from(value)
  return [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
    return text.slice(before === 0 ? 0 : 4, -4)
  })
}

const percentDecoded = (text: string): string =>
  text.replace(/%([0-9a-f]{2})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))

/**
 * Classifies how a key occurred in the checked text, as a word of a fixed list, so that nothing of the text is stored.
 * `matched` is the canonical form by which it was found.
 */
export function keyFormIn(text: string, matched: string): HitForm {
  const value = matched.replace(/^folded:/, '')
  const at = text.indexOf(value)
  if (at !== -1) return placeOf(text, value, at)
  const lower = text.toLowerCase()
  if (lower.includes(value.toLowerCase())) return 'case'
  const plain = text.replaceAll('-', '+').replaceAll('_', '/')
  if (base64Of(value).some((part) => plain.includes(part))) return 'base64'
  if (lower.includes(Buffer.from(value).toString('hex'))) return 'hex'
  if (percentDecoded(text).includes(value)) return 'percent'
  if (text.includes(Buffer.from(value, 'latin1').reverse().toString('latin1'))) return 'reversed'
  return 'encoded'
}
