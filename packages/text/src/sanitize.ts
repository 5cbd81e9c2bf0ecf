/**
 * Control characters, line separators, characters that reverse or hide text, private ones and lone surrogates: what a
 * terminal, a log, a chat or a mail program may obey instead of show. What Unicode calls ignorable by default is
 * invisible too: fillers of Hangul, which are letters, and variation selectors, in which whole texts hide. Only the
 * selectors that belong to an emoji stay.
 */
const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\p{Default_Ignorable_Code_Point}]/u
const ofEmoji = /[\ufe0e\ufe0f](?:(?<=\p{Extended_Pictographic}.)|(?=\u20e3))/u
const unsafe = new RegExp(`(?!${ofEmoji.source})${invisible.source}`, 'gu')
const unsafeRuns = new RegExp(`(?:${unsafe.source})+`, 'gu')

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
