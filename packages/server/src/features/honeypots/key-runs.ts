/** For each ASCII code, whether the character belongs to an alphabet. */
type Alphabet = Uint8Array

export function alphabet(characters: RegExp): Alphabet {
  return Uint8Array.from({ length: 128 }, (_, code) => (characters.test(String.fromCharCode(code)) ? 1 : 0))
}

interface Run {
  text: string
  /** Index of its first character. */
  start: number
}

/**
 * Finds the longest runs of at least `min` characters of the alphabet, like `/[…]{min,}/g`, which takes ten times
 * longer in ordinary text: most runs are too short, which their last character shows. Reads each character about once.
 */
export function runsOf(text: string, letters: Alphabet, min: number): Run[] {
  const runs: Run[] = []
  let start = 0
  /** Characters from `start` up to here are known to belong to the alphabet. */
  let known = 0
  while (start + min <= text.length) {
    let at = start + min - 1
    while (at >= known && isIn(letters, text.charCodeAt(at))) at--
    if (at >= known) {
      known = start + min
      start = at + 1
      continue
    }
    let end = start + min
    while (end < text.length && isIn(letters, text.charCodeAt(end))) end++
    runs.push({ text: text.slice(start, end), start })
    start = end + 1
    known = start
  }
  return runs
}

const isIn = (letters: Alphabet, code: number): boolean => code < 128 && letters[code] === 1
