import { styleText } from 'node:util'
import { escapeUnsafe } from '@wardline/text'

const styles: Record<string, Parameters<typeof styleText>[0]> = {
  debug: 'dim',
  info: 'cyan',
  warn: 'yellow',
  error: 'red',
}

const fieldText = ([name, value]: [string, unknown]): string =>
  `${name}=${typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value)}`

interface LoggedError {
  message?: unknown
  stack?: unknown
}

/**
 * Formats a JSON log record for a terminal: time, level, message and fields, followed by the stack of an error. Control
 * characters are escaped, so that text from agents cannot move the cursor or forge a line.
 */
export function prettyLine(json: string): string {
  const { level, time, msg, err, ...fields } = JSON.parse(json) as Record<string, unknown> & { err?: LoggedError }
  const { message, stack } = err ?? {}
  const parts = [
    ...(typeof msg === 'string' ? [msg] : []),
    ...(typeof message === 'string' && message !== msg ? [message] : []),
    ...Object.entries(fields).map(fieldText),
  ]
  const name = String(level)
  const shown = styleText(styles[name] ?? 'reset', name.padEnd(5), { stream: process.stdout })
  const clock = String(time).slice(11, 19)
  const frames = name === 'error' && typeof stack === 'string' ? stack.split('\n').slice(1) : []
  const below = frames.map((frame) => `          ${escapeUnsafe(frame.trim())}\n`).join('')
  return `${escapeUnsafe(clock)}  ${shown}  ${escapeUnsafe(parts.join('  '))}\n${below}`
}
