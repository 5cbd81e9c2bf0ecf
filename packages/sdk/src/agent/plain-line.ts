/**
 * Text from elsewhere, such as the reason of a kill, as one line that can neither move the cursor of a terminal nor
 * hide or reverse what stands beside it.
 */
export const plainLine = (text: string): string =>
  text
    .toWellFormed()
    .replace(
      /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]+/gu,
      ' ',
    )
    .trim()
