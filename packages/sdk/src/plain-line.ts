const unsafe =
  /(?:(?![\ufe0e\ufe0f](?:(?<=\p{Extended_Pictographic}.)|(?=\u20e3)))[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\p{Default_Ignorable_Code_Point}])+/gu

/**
 * Returns untrusted text, such as the reason of a kill, as one line that cannot move a terminal's cursor or hide or
 * reverse the text next to it. A copy of `sanitize` of @wardline/text, because the SDK has no dependencies.
 */
export const plainLine = (text: string): string => text.toWellFormed().replace(unsafe, ' ').trim()
