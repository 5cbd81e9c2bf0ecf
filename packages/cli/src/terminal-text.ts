/**
 * Control characters (C0, DEL, C1), line separators, and the marks that reverse or hide text (Unicode bidirectional
 * controls, zero-width characters, tags).
 */
const unsafe = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]+/gu

/**
 * Text from elsewhere, safe on a terminal: it can neither move the cursor nor pose as another line. Each run of
 * dangerous characters becomes one space; a lone surrogate becomes U+FFFD.
 */
export function plainText(text: string): string {
  return text.toWellFormed().replace(unsafe, ' ').trim()
}

/** At most `length` code points; what is cut shows as an ellipsis. */
export function cutText(text: string, length: number): string {
  const points = [...text]
  return points.length <= length ? text : `${points.slice(0, Math.max(0, length - 1)).join('')}…`
}

/** The same without the characters that JSON escapes by itself, as a class. */
const unsafeInJson = /[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu

const escaped = (character: string): string =>
  character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')

/** JSON that reads back the same and is safe on a terminal: what could act there is written as \u escapes. */
export function plainJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(unsafeInJson, escaped)
}
