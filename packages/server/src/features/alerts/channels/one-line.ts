/** What starts a new line, moves a cursor, or hides or reverses text in the file that a log server writes. */
const unsafe = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]+/gu

/** The same without the characters that JSON escapes by itself, as a class. */
const unsafeInJson = /[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu

const escaped = (character: string): string =>
  character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')

/** Text as one line of a log: each run of dangerous characters becomes a space. */
export const oneLine = (text: string): string => text.replace(unsafe, ' ').trim()

/** JSON that reads back the same and is one line: what is dangerous is written as \u escapes. */
export const oneLineJson = (value: unknown): string => JSON.stringify(value).replace(unsafeInJson, escaped)
