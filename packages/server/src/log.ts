import { type DestinationStream, type Logger, pino } from 'pino'
import type { Config } from './config.ts'
import { prettyLine } from './log-pretty.ts'

export type Log = Logger

/** Names under which a secret could come near a log line; whatever stands there is not written. */
const secretPaths = [
  'key',
  'secret',
  'password',
  'authorization',
  'cookie',
  'path',
  'value',
  'settings',
  'previous_secrets',
  'sealed',
  'token',
]
const redactPaths = [
  ...secretPaths,
  ...secretPaths.map((name) => `*.${name}`),
  'headers["x-monitor-key"]',
  '*.headers["x-monitor-key"]',
]

/** Whether people read the log: at a terminal, unless the configuration says otherwise. */
export const isLogPretty = ({ logFormat }: Pick<Config, 'logFormat'>): boolean =>
  logFormat === 'pretty' || (logFormat === 'auto' && process.stdout.isTTY === true)

/** Where the log of the configuration goes, in its form. */
export function logDestination(config: Pick<Config, 'logFormat'>): DestinationStream {
  const output = pino.destination({ fd: 1, sync: true })
  return isLogPretty(config) ? { write: (line) => void output.write(prettyLine(line)) } : output
}

/** One JSON line a record; JSON escapes every control character, so hostile text cannot forge a line. */
export function createLog(level: string, destination?: DestinationStream): Log {
  const options = {
    level,
    base: undefined,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: redactPaths, censor: '[redacted]' },
  }
  return destination ? pino(options, destination) : pino(options)
}
