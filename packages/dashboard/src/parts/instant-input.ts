/** Formats an instant for a datetime-local input, which has no time zone. */
export function inputOf(instant: string | undefined, zone: 'local' | 'utc'): string {
  if (instant === undefined || Number.isNaN(Date.parse(instant))) return ''
  const date = new Date(instant)
  const shift = zone === 'utc' ? 0 : date.getTimezoneOffset() * 60_000
  return new Date(date.getTime() - shift).toISOString().slice(0, 16)
}

export const instantOfInput = (input: string, zone: 'local' | 'utc'): string | undefined =>
  input === '' ? undefined : new Date(zone === 'utc' ? `${input}Z` : input).toISOString()
