/** The fields of a JSON object; none when the body is anything else. */
export function answerFields(body: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(body)
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}

/** A pause in seconds, whole or not, that a receiver asks for in its body: at most a day, and nothing else than a number. */
export function askedPause(value: unknown): { retryAfterSeconds?: number } {
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) return {}
  return { retryAfterSeconds: Math.min(Math.ceil(value), 86_400) }
}
