/** Settings that are not of the form that the coding agent reads. */
export class InvalidFile extends Error {}

/** Throws InvalidFile with the place of the fault; never with what stands there, since settings hold keys. */
export function parseSettings(text: string): unknown {
  const json = text.replace(/^\ufeff/, '')
  if (json.trim() === '') return {}
  try {
    return JSON.parse(json)
  } catch (fault) {
    const { line, column } = placeOf(json, (fault as Error).message)
    throw new InvalidFile(`It is not JSON: line ${line}, column ${column}.`)
  }
}

function placeOf(text: string, message: string): { line: number; column: number } {
  const position = /position (\d+)/.exec(message)?.[1]
  const place = position === undefined ? strangeToken(text) : Number(position)
  const lines = text.slice(0, place).split('\n')
  return { line: lines.length, column: lines.at(-1)!.length + 1 }
}

/** The parser names a strange token without its place: the end of the shortest beginning that fails by it. */
function strangeToken(text: string): number {
  let [low, high] = [0, text.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (failsByToken(text.slice(0, middle))) high = middle
    else low = middle + 1
  }
  return Math.max(0, low - 1)
}

function failsByToken(text: string): boolean {
  try {
    JSON.parse(text)
    return false
  } catch (fault) {
    return /^Unexpected token/.test((fault as Error).message)
  }
}
