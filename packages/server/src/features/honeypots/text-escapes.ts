const shortEscapes: Readonly<Record<string, string>> = {
  n: '\n',
  r: '\r',
  t: '\t',
  a: '\x07',
  b: '\b',
  f: '\f',
  v: '\v',
}

const character = (code: number): string => (code <= 0x10ffff ? String.fromCodePoint(code) : '\ufffd')

/** Undoes the escapes of JSON, JavaScript, Python, C and the shell's `$'…'`: named, hexadecimal, octal, Unicode. */
export function withoutEscapes(text: string): string {
  if (!text.includes('\\')) return text
  return text.replace(
    /\\(?:[ux]\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|([0-7]{2,3})|([^uxU]))/g,
    (_, braced, unicode, long, byte, octal, other) => {
      if (other !== undefined) return shortEscapes[other] ?? other
      return character(
        octal === undefined ? Number.parseInt(braced ?? unicode ?? long ?? byte, 16) : Number.parseInt(octal, 8),
      )
    },
  )
}
