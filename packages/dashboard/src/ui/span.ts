export const hourMs = 3_600_000
export const dayMs = 24 * hourMs

/** Formats a duration such as `41 s`, `12 min`, `5 h` or `3 days`. */
export function spanText(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000
  if (seconds < 120) return `${Math.floor(seconds)} s`
  if (seconds < 7_200) return `${Math.floor(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.floor(seconds / 3_600)} h`
  return `${Math.floor(seconds / 86_400)} days`
}
