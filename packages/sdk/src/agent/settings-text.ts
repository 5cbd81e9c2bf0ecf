import type { CodingTool } from './agent-settings.ts'

/** Settings that are not in the format of the coding agent. */
export class InvalidFile extends Error {}

/**
 * Whether the coding agent refuses settings that others read: a byte order mark is a syntax error for serde_json (Codex,
 * `codex-rs/hooks/src/engine/discovery.rs`) and for JSON.parse (Gemini CLI, `packages/cli/src/config/settings.ts`).
 */
export const isRefused = (tool: CodingTool, text: string): boolean =>
  text.startsWith('\ufeff') && (tool === 'codex' || tool === 'gemini-cli')

/**
 * Parses settings. Throws InvalidFile with the position of the error but without quoting the text, because settings may
 * contain keys.
 */
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

/**
 * Finds the position of an unexpected token, which the parser names without a position: the end of the shortest prefix
 * that fails with that error.
 */
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
