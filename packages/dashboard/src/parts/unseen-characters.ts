/** A part of a text, or the code of one character that would not be seen. */
interface TextPart {
  text: string
  code?: string
}

/**
 * Controls, formats (marks of direction among them), separators of lines, surrogates without a partner, unassigned; and
 * combining marks beyond eight in a row, more than any script sets: no line breaks between them, and they cover others.
 */
const unseen =
  /(?<=\p{M}{8})\p{M}|\p{Cc}|\p{Cf}|\p{Zl}|\p{Zp}|\p{Cs}|\p{Co}|\p{Cn}|\u034f|\u115f|\u1160|\u3164|\uffa0/gu

const codeOf = (character: string): string =>
  character === '\n' ? '↵' : `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`

export function splitUnseen(text: string): TextPart[] {
  const parts: TextPart[] = []
  let from = 0
  for (const { 0: character, index } of text.matchAll(unseen)) {
    if (index > from) parts.push({ text: text.slice(from, index) })
    parts.push({ text: character, code: codeOf(character) })
    from = index + character.length
  }
  if (from < text.length) parts.push({ text: text.slice(from) })
  return parts
}

/** For places that take text alone, such as an option or a title: what would be invisible stands as its code. */
export const plainText = (text: string): string =>
  splitUnseen(text)
    .map(({ text: part, code }) => code ?? part)
    .join('')
