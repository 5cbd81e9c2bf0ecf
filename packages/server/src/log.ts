import { type DestinationStream, type Logger, pino } from 'pino'

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
