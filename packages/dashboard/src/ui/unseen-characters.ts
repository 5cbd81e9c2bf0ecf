/** A part of a text, or the code of one invisible character. */
interface TextPart {
  text: string
  code?: string
}

/**
 * Matches controls, formats (including direction marks), line separators, lone surrogates and unassigned characters.
 * Also matches combining marks beyond eight in a row: more than any script uses, without line breaks between them, and
 * drawn over other text.
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

/** For plain-text places such as options and titles: replaces invisible characters by their codes. */
export const plainText = (text: string): string =>
  splitUnseen(text)
    .map(({ text: part, code }) => code ?? part)
    .join('')
