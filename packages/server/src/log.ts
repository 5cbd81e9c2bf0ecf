import { sessionHeader } from '@wardline/contract'
import { type DestinationStream, type Logger, pino } from 'pino'
import type { Config } from './config/config.ts'
import { prettyLine } from './log-pretty.ts'

export type Log = Logger

/** Field names that may contain a secret; their values are redacted. */
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
  ...['x-monitor-key', sessionHeader].flatMap((name) => [`headers["${name}"]`, `*.headers["${name}"]`]),
]

/** Whether the log is formatted for people: by default, if stdout is a terminal. */
export const isLogPretty = ({ logFormat }: Pick<Config, 'logFormat'>): boolean =>
  logFormat === 'pretty' || (logFormat === 'auto' && process.stdout.isTTY === true)

/** Returns the log destination for the configured format. */
export function logDestination(config: Pick<Config, 'logFormat'>): DestinationStream {
  const output = pino.destination({ fd: 1, sync: true })
  return isLogPretty(config) ? { write: (line) => void output.write(prettyLine(line)) } : output
}

/** Creates a log of one JSON line per record. JSON escapes control characters, so hostile text cannot forge lines. */
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
