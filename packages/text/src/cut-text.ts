/** Returns the size of one character (code point) at the receiver, after escaping. */
export type CharacterSize = (character: string) => number

/** Size in UTF-16 units, which most chats count. */
export const utf16Size: CharacterSize = (character) => character.length

/** Size in bytes of UTF-8. */
export const utf8Size: CharacterSize = (character) => Buffer.byteLength(character)

/**
 * Cuts `text` to a total size of `maxSize`, including the ellipsis that marks a cut. By default every character counts
 * 1. Never splits a character.
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
