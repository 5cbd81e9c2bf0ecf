import { UnfitFile } from './hook-entries.ts'

export interface SettingsText {
  value: unknown
  /** The value as text in the form of the file it was read from. */
  format(value: unknown): string
}

/** Throws UnfitFile with the place of the fault; never with what stands there, since settings hold keys. */
export function parseSettings(text: string): SettingsText {
  const mark = text.startsWith('\ufeff') ? '\ufeff' : ''
  const json = text.slice(mark.length)
  if (json.trim() === '') return { value: {}, format: (value) => `${JSON.stringify(value, null, 2)}\n` }
  const lineEnd = json.includes('\r\n') ? '\r\n' : '\n'
  const indent = /^([ \t]+)\S/m.exec(json)?.[1] ?? '  '
  const end = /\s*$/.exec(json)?.[0] ?? ''
  const format = (value: unknown) => mark + JSON.stringify(value, null, indent).replaceAll('\n', lineEnd) + end
  try {
    return { value: JSON.parse(json), format }
  } catch (fault) {
    const { line, column } = placeOf(json, (fault as Error).message)
    throw new UnfitFile(`It is not JSON: line ${line}, column ${column}.`)
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
  let [least, most] = [0, text.length]
  while (least < most) {
    const middle = (least + most) >> 1
    if (failsByToken(text.slice(0, middle))) most = middle
    else least = middle + 1
  }
  return Math.max(0, least - 1)
}

function failsByToken(text: string): boolean {
  try {
    JSON.parse(text)
    return false
  } catch (fault) {
    return /^Unexpected token/.test((fault as Error).message)
  }
}
