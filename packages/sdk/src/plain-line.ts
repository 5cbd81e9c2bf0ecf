/**
 * Text from elsewhere, such as the reason of a kill, as one line that can neither move the cursor of a terminal nor
 * hide or reverse what stands beside it. A copy of `sanitize` of @wardline/text: the SDK depends on nothing.
 */
export const plainLine = (text: string): string =>
  text
    .toWellFormed()
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\u2065\u{e0000}-\u{e007f}]+/gu, ' ')
    .trim()
