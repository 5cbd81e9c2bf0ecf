/** At most this many characters of any one decoded reading are looked at; no reading of an allowed input is longer. */
export const MAX_READING_LENGTH = 65_536

/** Characters that quoting, wrapping and commenting put between the parts of a key; none occurs in a key. */
const GLUE = /[\s"'`\\,>|#*\u00ad\u200b-\u200d\u2060\ufeff]+/g

/**
 * Other texts that one text may stand for, one step of decoding away: percent-encoding, string escapes, Unicode
 * look-alikes, listings with line numbers or diff marks, text broken into lines or string parts, base64 and
 * hexadecimal. Every step is linear in the text.
 */
export function readings(text: string): string[] {
  const found = [
    percentDecoded(text),
    unescaped(text),
    text.normalize('NFKC'),
    withoutMargins(text),
    joined(text),
    printable(base64Bytes(text)),
    printable(hexBytes(text)),
  ]
  return [...new Set(found)]
    .filter((reading) => reading !== text && reading.length > 0)
    .map((reading) => reading.slice(0, MAX_READING_LENGTH))
}

function percentDecoded(text: string): string {
  return text.replace(/%([0-9a-fA-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

const SHORT_ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' }

/** Undoes the escapes of JSON, JavaScript, Python and the shell's `$'…'`. */
function unescaped(text: string): string {
  return text.replace(/\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([^ux]))/g, (_, unicode, byte, other) =>
    other === undefined ? String.fromCharCode(Number.parseInt(unicode ?? byte, 16)) : (SHORT_ESCAPES[other] ?? other),
  )
}

/** Drops the marks of a diff and the line numbers that file viewers put before each line. */
function withoutMargins(text: string): string {
  return text.replace(/^(?:[+-]|[ \t]{0,8}\d{1,6}[ \t]?[:|→\t ])[ \t]?/gm, '')
}

/** Puts a key together again that was wrapped, quoted line by line, or concatenated from string literals. */
function joined(text: string): string {
  return text
    .replace(/(?<!\\)\\+[nrt]/g, '')
    .replace(/["'`]\s*[+.&]\s*["'`]/g, '')
    .replace(GLUE, '')
}

/**
 * Bytes of every base64 or base64url run that could hold a key. A run may have foreign characters before it that
 * happen to be in the alphabet (a path, a name), so it is decoded at each of the four alignments.
 */
function base64Bytes(text: string): string[] {
  const runs = text.match(/[A-Za-z0-9+/_-]{24,}/g) ?? []
  return runs.flatMap((run) => [0, 1, 2, 3].map((start) => Buffer.from(run.slice(start), 'base64').toString('latin1')))
}

function hexBytes(text: string): string[] {
  const runs = text.match(/[0-9a-fA-F]{40,}/g) ?? []
  return runs.flatMap((run) => [0, 1].map((start) => Buffer.from(run.slice(start), 'hex').toString('latin1')))
}

/** The stretches of decoded bytes that are text; keys are ASCII. NULs go first, since UTF-16 has one per character. */
function printable(decoded: readonly string[]): string {
  return decoded.flatMap((bytes) => bytes.replaceAll('\0', '').match(/[\x20-\x7e\r\n\t]{16,}/g) ?? []).join('\n')
}
