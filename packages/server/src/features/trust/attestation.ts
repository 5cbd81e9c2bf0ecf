import { hash } from 'node:crypto'
import { attestationText } from '@wardline/contract'
import { dayMs, hourMs } from '../../clock.ts'
import type { AttestationsTable as Attestation } from '../../db/schema/trust.ts'
import { riskTier, riskTierLabel } from './risk-score.ts'

/** The versioned family of claims that every attestation of this service belongs to. */
const attestationNamespace = 'wardline.v1'

/** What the hash covers. */
export type AttestationRecord = Omit<Attestation, 'hash'>

type AttestationKind = 'posture' | 'runtime.clean'

type WeeklyInputs = {
  nowMs: number
  /** The runtime risk score, 0 (best) to 100. */
  riskScore: number
  /** Critical and breach events of the last 720 hours. */
  severeEvents720h: number
  /** Since when the service has been watching; null when it does not know. */
  observingSinceMs: number | null
}

const weekMs = 7 * dayMs
const cleanWindowMs = 720 * hourMs

/**
 * The attestations of one week: the posture always, the clean runtime only when the whole window of 720 hours was
 * watched and held neither a critical event nor a breach. An unknown count or start is never "clean".
 */
export function weeklyAttestations(inputs: WeeklyInputs): Attestation[] {
  const { nowMs, riskScore, severeEvents720h, observingSinceMs } = inputs
  const watched = observingSinceMs !== null && nowMs - observingSinceMs >= cleanWindowMs
  const kinds: AttestationKind[] = watched && severeEvents720h === 0 ? ['posture', 'runtime.clean'] : ['posture']
  return kinds.map((kind) => buildAttestation({ kind, nowMs, riskScore }))
}

/**
 * Builds one attestation and its hash. It names no agent, event or person, because it is public. Throws a RangeError
 * for a risk score that is no whole number of 0 to 100: a false claim must not be published.
 */
export function buildAttestation(inputs: { kind: AttestationKind; nowMs: number; riskScore: number }): Attestation {
  const { kind, nowMs, riskScore } = inputs
  if (!Number.isInteger(riskScore) || riskScore < 0 || riskScore > 100) {
    throw new RangeError(`A risk score is a whole number from 0 to 100, not ${riskScore}.`)
  }
  const score = 100 - riskScore
  const record = { namespace: attestationNamespace, ...claim(kind, score), score, at: nowMs, period: isoWeek(nowMs) }
  return { ...record, hash: attestationHash(record) }
}

function claim(kind: AttestationKind, score: number): Pick<AttestationRecord, 'type' | 'title' | 'summary' | 'tag'> {
  switch (kind) {
    case 'posture':
      return {
        type: 'Posture',
        title: 'Weekly security posture',
        summary: `${riskTierLabel(riskTier(100 - score))}. Security score ${score}/100`,
        tag: 'posture.weekly',
      }
    case 'runtime.clean':
      return {
        type: 'Runtime',
        title: '30-day clean runtime',
        summary: `720h without critical incidents. Security score ${score}/100`,
        tag: 'runtime.clean',
      }
  }
}

/**
 * `0x` and the SHA-256 in hex of the record as canonical JSON (RFC 8785) in UTF-8. The time goes in as ISO 8601, as the
 * public summary shows it, so that the hash can be computed from the published fields.
 */
export function attestationHash(record: AttestationRecord): string {
  const at = new Date(record.at).toISOString()
  return `0x${hash('sha256', attestationText({ ...record, at }), 'hex')}`
}

/** The first 6 and the last 4 characters of a `0x` hash, such as `0xdead...beef`. */
export function hashPreview(hash: string): string {
  return `${hash.slice(0, 6)}...${hash.slice(-4)}`
}

/** True when nothing was attested yet, and from 7 days after the last attestation on. */
export function attestationDue(lastAtMs: number | null, nowMs: number): boolean {
  return lastAtMs === null || nowMs - lastAtMs >= weekMs
}

/**
 * The ISO 8601 week of a time in UTC, such as `2026-W47`. With the tag it is the unique key of an attestation: of
 * two processes that attest at the same moment, the database lets one through. Weeks begin on Monday and belong to
 * the year of their Thursday.
 */
export function isoWeek(atMs: number): string {
  const daysSinceMonday = (new Date(atMs).getUTCDay() + 6) % 7
  const thursday = new Date(atMs + (3 - daysSinceMonday) * dayMs)
  const year = thursday.getUTCFullYear()
  const week = 1 + Math.floor((thursday.getTime() - Date.UTC(year, 0, 1)) / weekMs)
  return `${year}-W${String(week).padStart(2, '0')}`
}
