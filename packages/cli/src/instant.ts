import { InvalidArgumentError } from 'commander'

const unitMs: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Parses a duration such as 90s, 15m, 2h or 7d to milliseconds; undefined for any other text. */
function durationMs(text: string): number | undefined {
  const [, amount, unit = ''] = /^(\d{1,7})([smhd])$/.exec(text) ?? []
  return amount === undefined ? undefined : Number(amount) * unitMs[unit]!
}

const isInstant = (text: string): boolean =>
  /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/.test(text)

/** Parses an ISO 8601 instant, a day, or an age such as 90s, 15m, 2h or 7d. Returns ISO 8601. */
export function readInstant(text: string, now: number): string {
  const ago = durationMs(text)
  const isDay = /^\d{4}-\d{2}-\d{2}$/.test(text)
  const time = ago !== undefined ? now - ago : isDay || isInstant(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(time) || time < 0) {
    throw new InvalidArgumentError('It must be an ISO 8601 instant, a day (UTC), or an age: 90s, 15m, 2h, 7d.')
  }
  return new Date(time).toISOString()
}

/** Option parser of an instant in the past. */
export const instantOption = (text: string): string => readInstant(text, Date.now())

/** Option parser of a duration; returns milliseconds. */
export function durationOption(text: string): number {
  const ms = durationMs(text)
  if (ms === undefined) throw new InvalidArgumentError('It must be a duration such as 90s, 15m, 2h or 7d.')
  return ms
}

/** Option parser of an end time. It rejects a day, which could mean its start or its end. */
export function endOption(text: string): string {
  const time = isInstant(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(time)) throw new InvalidArgumentError('It must be an ISO 8601 instant, such as 2026-11-21T18:00Z.')
  return new Date(time).toISOString()
}

const hourMs = 3_600_000

/** Formats an age in one unit: `12 s`, `5 min`, `3 h`, `2 d`. */
export function ageText(seconds: number): string {
  const ms = seconds * 1_000
  if (ms < 120_000) return `${Math.max(0, Math.round(seconds))} s`
  if (ms < 2 * hourMs) return `${Math.floor(ms / 60_000)} min`
  if (ms < 48 * hourMs) return `${Math.floor(ms / hourMs)} h`
  return `${Math.floor(ms / (24 * hourMs))} d`
}
