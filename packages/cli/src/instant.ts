import { InvalidArgumentError } from 'commander'

const unitMs: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** The instant that a person means, in ISO 8601: one such, a day, or how long ago, such as 90s, 15m, 2h or 7d. */
export function readInstant(text: string, now: number): string {
  const [, amount, unit = ''] = /^(\d{1,7})([smhd])$/.exec(text) ?? []
  const isDay = /^\d{4}-\d{2}-\d{2}$/.test(text)
  const isInstant = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/.test(text)
  const time = amount ? now - Number(amount) * unitMs[unit]! : isDay || isInstant ? Date.parse(text) : Number.NaN
  if (Number.isNaN(time) || time < 0) {
    throw new InvalidArgumentError('It must be an ISO 8601 instant, a day (UTC), or how long ago: 90s, 15m, 2h, 7d.')
  }
  return new Date(time).toISOString()
}

/** The same as the parser of an option. */
export const instantOption = (text: string): string => readInstant(text, Date.now())

const hourMs = 3_600_000

/** How long something is ago, in one unit: `12 s`, `5 min`, `3 h`, `2 d`. */
export function ageText(seconds: number): string {
  const ms = seconds * 1_000
  if (ms < 120_000) return `${Math.max(0, Math.round(seconds))} s`
  if (ms < 2 * hourMs) return `${Math.floor(ms / 60_000)} min`
  if (ms < 48 * hourMs) return `${Math.floor(ms / hourMs)} h`
  return `${Math.floor(ms / (24 * hourMs))} d`
}
