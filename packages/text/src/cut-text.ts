/** What one character (code point) costs where it is sent, escaped as it is sent there. */
export type CharacterSize = (character: string) => number

/** UTF-16 units, which most chats count. */
export const utf16Size: CharacterSize = (character) => character.length

/** Bytes of UTF-8. */
export const utf8Size: CharacterSize = (character) => Buffer.byteLength(character)

/**
 * The beginning of `text` that costs at most `most`, with an ellipsis when something is missing; by default every
 * character costs 1. Never half a character.
 */
export function cutText(text: string, maxSize: number, size: CharacterSize = () => 1): string {
  const ellipsis = size('…')
  let used = 0
  let place = 0
  let kept = 0
  for (const character of text) {
    used += size(character)
    if (used > maxSize) return `${text.slice(0, kept)}…`
    place += character.length
    if (used + ellipsis <= maxSize) kept = place
  }
  return text
}
