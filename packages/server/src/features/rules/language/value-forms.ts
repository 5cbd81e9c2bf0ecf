import { escapeWildcards } from '@wardline/text'

// Modifiers that replace a value by others that mean the same, such as its encodings.

/** Signs that begin an option of a Windows command line: hyphen, slash, en dash, em dash and horizontal bar. */
const optionSigns = ['-', '/', '\u2013', '\u2014', '\u2015']
/** More options than this in one value would make thousands of values. */
const maxOptions = 4

/** All ways to write the options of a command line. */
function windash(value: string): string[] | string {
  const parts = value.split(/\B[-/\u2013\u2014\u2015]\b/)
  if (parts.length - 1 > maxOptions) return `windash allows at most ${maxOptions} options in a value.`
  return parts
    .slice(1)
    .reduce((found, part) => found.flatMap((text) => optionSigns.map((sign) => text + sign + part)), [parts[0]!])
}

/** Texts of bytes have a character for each byte. */
const bytesOf = (text: string): Buffer => Buffer.from(text, /[^\0-\xff]/.test(text) ? 'utf8' : 'latin1')
const ofBytes = (bytes: Buffer): string => bytes.toString('latin1')

function utf16(text: string, order: 'le' | 'be', mark = false): string {
  const bytes = Buffer.from(mark ? `\ufeff${text}` : text, 'utf16le')
  return ofBytes(order === 'le' ? bytes : bytes.swap16())
}

/**
 * The characters of base64 that a text has wherever it begins in a longer one: after none, one or two bytes, without the
 * characters that depend on what is before and after it.
 */
function base64offset(text: string): string[] {
  const bytes = bytesOf(text)
  return [0, 1, 2].map((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replace(/=+$/, '')
    const bits = 8 * (before + bytes.length)
    // A character has six bits.
    return encoded.slice(Math.ceil((8 * before) / 6), Math.floor(bits / 6))
  })
}

/** Functions of forms, by modifier. Each returns the values to use instead of one, or why it cannot. */
const forms: Readonly<Record<string, (text: string) => string[] | string>> = {
  windash,
  base64: (text) => [bytesOf(text).toString('base64')],
  base64offset,
  wide: (text) => [utf16(text, 'le')],
  utf16le: (text) => [utf16(text, 'le')],
  utf16be: (text) => [utf16(text, 'be')],
  utf16: (text) => [utf16(text, 'le', true)],
}
export const formNames = Object.keys(forms)

/** Whether the form is of the text itself, which then cannot have wildcards. */
const isEncoding = (name: string): boolean => name !== 'windash'

/** Returns a text without the backslashes that escape wildcards; undefined if it has wildcards. */
function literal(value: string): string | undefined {
  return /^(?:\\[*?\\]|[^*?])*$/.test(value) ? value.replace(/\\([*?\\])/g, '$1') : undefined
}

/** Applies forms in turn; returns the values to compare instead of one, or why there are none. */
export function valueForms(value: string, names: readonly string[]): string[] | string {
  let texts = [value]
  for (const [index, name] of names.entries()) {
    const found: string[] = []
    for (const text of texts) {
      const isFirstEncoding = isEncoding(name) && !names.slice(0, index).some(isEncoding)
      const plain = isFirstEncoding ? literal(text) : text
      if (plain === undefined) return `${name} needs a text without wildcards.`
      const made = forms[name]!(plain)
      if (typeof made === 'string') return made
      found.push(...made)
    }
    texts = found
  }
  return names.some(isEncoding) ? texts.map(escapeWildcards) : texts
}
