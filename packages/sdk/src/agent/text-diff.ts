import { withoutCredentials } from '../credentials.ts'

const context = 3

/** Returns the difference between two texts for people, as one block from the first to the last line that differs. */
export function textDiff(before: string, after: string): string {
  const [old, next] = [linesOf(before), linesOf(after)]
  let start = 0
  while (start < old.length && start < next.length && old[start] === next[start]) start++
  let end = 0
  while (end < old.length - start && end < next.length - start && old.at(-1 - end) === next.at(-1 - end)) end++
  const lines = [
    ...old.slice(Math.max(0, start - context), start).map((line) => `  ${line}`),
    ...old.slice(start, old.length - end).map((line) => `- ${line}`),
    ...next.slice(start, next.length - end).map((line) => `+ ${line}`),
    ...next.slice(next.length - end, next.length - end + context).map((line) => `  ${line}`),
  ]
  // Settings may contain other keys, and terminal output is often recorded.
  return lines.map(withoutCredentials).join('\n')
}

const linesOf = (text: string): string[] => (text === '' ? [] : text.replace(/\r?\n$/, '').split(/\r?\n/))
