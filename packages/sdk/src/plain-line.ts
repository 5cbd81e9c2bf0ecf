const unsafe =
  /(?:(?![\ufe0e\ufe0f](?:(?<=\p{Extended_Pictographic}.)|(?=\u20e3)))[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\p{Default_Ignorable_Code_Point}])+/gu

/**
 * Text from elsewhere, such as the reason of a kill, as one line that can neither move the cursor of a terminal nor
 * hide or reverse what stands beside it. A copy of `sanitize` of @wardline/text: the SDK depends on nothing.
 */
export const plainLine = (text: string): string => text.toWellFormed().replace(unsafe, ' ').trim()
