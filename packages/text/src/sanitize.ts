/**
 * Characters that a terminal, log, chat or mail program may obey instead of show: control characters, line separators,
 * characters that reverse or hide text, private-use characters and lone surrogates. Also Unicode's default-ignorable
 * characters, which are invisible: Hangul fillers, which are letters, and variation selectors, which can hide whole
 * texts. Only the selectors that belong to an emoji stay.
 */
const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\p{Default_Ignorable_Code_Point}]/u
const ofEmoji = /[\ufe0e\ufe0f](?:(?<=\p{Extended_Pictographic}.)|(?=\u20e3))/u
const unsafe = new RegExp(`(?!${ofEmoji.source})${invisible.source}`, 'gu')
const unsafeRuns = new RegExp(`(?:${unsafe.source})+`, 'gu')

/** Returns untrusted text as one line. Each run of unsafe characters becomes a space, each lone surrogate U+FFFD. */
export const sanitize = (text: string): string => text.toWellFormed().replace(unsafeRuns, ' ').trim()

/** Replaces every unsafe character with `by`, so that a reader sees that something was removed. */
export const replaceUnsafe = (text: string, by: string): string => text.replace(unsafe, by)

const escaped = (character: string): string =>
  character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')

/** Replaces unsafe characters, including line breaks, with `\u` escapes, which JSON parsers decode. */
export const escapeUnsafe = (text: string): string => text.replace(unsafe, escaped)

/** Returns JSON that parses to the same value and is safe to show. `indent` as in `JSON.stringify`. */
export function safeJson(value: unknown, indent?: number): string {
  // The line breaks of the indent are the only unsafe characters that belong to the JSON itself.
  return JSON.stringify(value, null, indent).split('\n').map(escapeUnsafe).join('\n')
}
