import type { Erc8126Error, VerificationType } from '@wardline/contract'
import type { VerificationsTable } from '../../../db/schema/trust.ts'

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
  /** 0 (best) to 100; null when nothing was to be checked, or a check could not be made. */
  risk: number | null
  notes: string
  details: string[]
  /** Why there is no score, by the name that ERC-8126 gives it; undefined when nothing was to be checked. */
  error?: Erc8126Error
}

/** Adds up the findings, to a maximum of 100, with the note of the gravest. */
export function scoreOf(findings: readonly RiskFinding[], good: string): Score {
  const [gravest] = findings.toSorted((one, other) => other.risk - one.risk)
  const sum = findings.reduce((total, { risk }) => total + risk, 0)
  return { risk: Math.min(100, sum), notes: gravest?.note ?? good, details: findings.map(({ detail }) => detail) }
}

/** Nothing was to be checked. */
export const notApplicable = (notes: string): Score => ({ risk: null, notes, details: [] })

/** A check could not be made. */
export const notScored = (error: Erc8126Error, notes: string, ...details: string[]): Score => ({
  risk: null,
  notes,
  details,
  error,
})

/** Returns the worst of several scores with the details of all; no score if one is missing. */
export function worstOf(scores: readonly [Score, ...Score[]]): Score {
  const worst = scores.reduce((one, other) => ((one.risk ?? 101) >= (other.risk ?? 101) ? one : other))
  return { ...worst, details: scores.flatMap(({ details }) => details) }
}

/**
 * Returns the mean of the scores that there are (https://eips.ethereum.org/EIPS/eip-8126); null when there is none,
 * because 0 would read as "low risk" although nothing was checked.
 */
export function unifiedScore(risks: readonly (number | null)[]): number | null {
  const known = risks.filter((risk) => risk !== null)
  return known.length === 0 ? null : Math.round(known.reduce((sum, risk) => sum + risk, 0) / known.length)
}

type Covered = Pick<VerificationsTable, 'agent_id' | 'wav_score' | 'wv_score' | 'applies'>

/** Returns over what the unified score is, and what applies to the subject and has no score. */
export function coverageOf({ agent_id, wav_score, wv_score, applies }: Covered) {
  const isScored = { wav: wav_score !== null, wv: wv_score !== null }
  const both = ['wav', 'wv'] as const
  return {
    subject: agent_id === null ? ('configured_address' as const) : ('agent' as const),
    scored: both.filter((type) => isScored[type]),
    not_checked: [
      ...both.filter((type) => !isScored[type]),
      ...((applies ?? '').split(',').filter((type) => type !== '') as VerificationType[]),
    ],
  }
}
