/** Something that speaks against what was checked. */
export interface Finding {
  /** Points of risk that it adds. */
  risk: number
  /** Published: short, and without anything that helps an attacker. */
  note: string
  /** For the operator. */
  detail: string
}

export interface Score {
  /** 0 (best) to 100; null when there was nothing to check, or it could not be checked. */
  risk: number | null
  notes: string
  details: string[]
}

/** The sum of the findings, at most 100, with the note of the gravest. */
export function scoreOf(findings: readonly Finding[], good: string): Score {
  const [gravest] = findings.toSorted((one, other) => other.risk - one.risk)
  const sum = findings.reduce((total, { risk }) => total + risk, 0)
  return { risk: Math.min(100, sum), notes: gravest?.note ?? good, details: findings.map(({ detail }) => detail) }
}

export const notScored = (notes: string, ...details: string[]): Score => ({ risk: null, notes, details })

/**
 * The mean of the scores that apply (https://eips.ethereum.org/EIPS/eip-8126). Null when none does: 0 would read as "low
 * risk" of something that nobody looked at.
 */
export function unifiedScore(risks: readonly (number | null)[]): number | null {
  const known = risks.filter((risk) => risk !== null)
  return known.length === 0 ? null : Math.round(known.reduce((sum, risk) => sum + risk, 0) / known.length)
}
