/**
 * Control characters, line separators, characters that reverse or hide text, private ones and lone surrogates: what a
 * terminal, a log, a chat or a mail program may obey instead of show. Tags (E0000-E007F) and U+2065 are unassigned in
 * part, and invisible all the same.
 */
const unsafe = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\u2065\u{e0000}-\u{e007f}]/gu
const unsafeRuns = new RegExp(`${unsafe.source}+`, 'gu')

/** Untrusted text as one line: each run of unsafe characters becomes a space, a lone surrogate U+FFFD. */
export const sanitize = (text: string): string => text.toWellFormed().replace(unsafeRuns, ' ').trim()

/** Every unsafe character becomes `by`, so that a reader sees that something was there. */
export const replaceUnsafe = (text: string, by: string): string => text.replace(unsafe, by)

const escaped = (character: string): string =>
  character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')

/** Unsafe characters as `\u` escapes, which JSON reads back; line breaks are escaped too. */
export const escapeUnsafe = (text: string): string => text.replace(unsafe, escaped)

/** JSON that reads back the same and is safe to show. `indent` as in `JSON.stringify`. */
export function safeJson(value: unknown, indent?: number): string {
  // Line breaks of the indent are the only unsafe characters that belong to the JSON itself.
  return JSON.stringify(value, null, indent).split('\n').map(escapeUnsafe).join('\n')
}
