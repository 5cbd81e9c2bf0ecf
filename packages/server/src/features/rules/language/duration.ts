const unitMs: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Parses a duration in the contract's pattern, such as 15m, to milliseconds. */
export const durationMs = (text: string): number => Number(text.slice(0, -1)) * unitMs[text.at(-1)!]!
