/** A problem found by the check. */
export interface RiskFinding {
  /** Points added to the risk. */
  risk: number
  /** Published, so it is short and contains nothing that helps an attacker. */
  note: string
  /** For the operator. */
  detail: string
}

export interface Score {
  /** 0 (best) to 100; null when nothing was to be checked, or the check failed. */
  risk: number | null
  notes: string
  details: string[]
}

/** Adds up the findings, to a maximum of 100, with the note of the gravest. */
export function scoreOf(findings: readonly RiskFinding[], good: string): Score {
  const [gravest] = findings.toSorted((one, other) => other.risk - one.risk)
  const sum = findings.reduce((total, { risk }) => total + risk, 0)
  return { risk: Math.min(100, sum), notes: gravest?.note ?? good, details: findings.map(({ detail }) => detail) }
}

export const notScored = (notes: string, ...details: string[]): Score => ({ risk: null, notes, details })

/**
 * Returns the mean of the scores that apply (https://eips.ethereum.org/EIPS/eip-8126); null when none does, because 0
 * would read as "low risk" although nothing was checked.
 */
export function unifiedScore(risks: readonly (number | null)[]): number | null {
  const known = risks.filter((risk) => risk !== null)
  return known.length === 0 ? null : Math.round(known.reduce((sum, risk) => sum + risk, 0) / known.length)
}
