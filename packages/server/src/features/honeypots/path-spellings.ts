import { withoutEscapes } from './text-escapes.ts'

/** Maximum number of percent-decoding passes; no program that opens files decodes more layers. */
const maxPercentDepth = 3

/**
 * Returns the texts that a submitted path may mean: unchanged, with look-alikes and percent-encoding decoded, without
 * shell escapes, cut at a NUL. The unchanged text is always included, because each of these characters is legal in a
 * name.
 */
export function spellings(text: string): string[] {
  const found = new Set([text, text.normalize('NFKC')])
  for (let depth = 0; depth < maxPercentDepth; depth++) addEach(found, percentDecoded)
  addEach(found, (path) => path.split('\0', 1)[0]!)
  addEach(found, (path) => path.replace(/\\(?=[^\\])/g, ''))
  found.add(withoutEscapes(text))
  return [...found].map(withoutFileScheme)
}

/** Whether a text has no other spelling, except that of a file URL. */
export function isPlain(text: string): boolean {
  return !/[%\\]|[^\x20-\x7e]/.test(text)
}

function addEach(found: Set<string>, rewrite: (text: string) => string): void {
  for (const text of [...found]) found.add(rewrite(text))
}

/**
 * Parses file URLs leniently: Node's parser rejects encoded slashes and foreign hosts, which other programs may accept.
 */
export function withoutFileScheme(text: string): string {
  const match = /^\s*file:([^?#]*)/i.exec(text)
  if (match === null) return text
  const path = match[1]!.replace(/^[/\\]{2}(?:localhost|127\.0\.0\.1)(?=[/\\])/i, '')
  return path.replace(/^[/\\]*([A-Za-z])\|/, '$1:')
}

/** Decodes `%xx` and `%uxxxx`. Invalid UTF-8 is decoded leniently, including overlong sequences. */
function percentDecoded(text: string): string {
  return text
    .replace(/%u([0-9a-fA-F]{4})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replace(/(?:%[0-9a-fA-F]{2})+/g, (run) => lenientUtf8(Buffer.from(run.replaceAll('%', ''), 'hex')))
}

/** Overlong forms (`c0 ae` for a dot) are an old filter bypass, so they count as the character they encode. */
function lenientUtf8(bytes: Uint8Array): string {
  let text = ''
  for (let place = 0; place < bytes.length; ) {
    const lead = bytes[place]!
    const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1
    const rest = bytes.subarray(place + 1, place + length)
    const isWhole = length > 1 && rest.length === length - 1 && rest.every((byte) => (byte & 0xc0) === 0x80)
    let code = isWhole ? lead & (0xff >> (length + 1)) : lead
    if (isWhole) for (const byte of rest) code = (code << 6) | (byte & 0x3f)
    text += code <= 0x10ffff ? String.fromCodePoint(code) : '\ufffd'
    place += isWhole ? length : 1
  }
  return text
}
