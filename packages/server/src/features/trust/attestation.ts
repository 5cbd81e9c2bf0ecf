import { hash } from 'node:crypto'
import { attestationText } from '@wardline/contract'
import { dayMs, hourMs } from '../../clock.ts'
import type { AttestationsTable } from '../../db/schema/trust.ts'
import { riskTier, riskTierLabel } from './risk-score.ts'

/** Versioned namespace of this service's attestations. */
const attestationNamespace = 'wardline.v1'

/** An attestation before it is signed. */
type Attestation = Omit<AttestationsTable, 'uid' | 'signed'>

/** The fields that the hash covers. */
export type AttestationRecord = Omit<Attestation, 'hash'>

type AttestationKind = 'posture' | 'runtime.clean'

type WeeklyInputs = {
  nowMs: number
  /** The runtime risk score, 0 (best) to 100. */
  riskScore: number
  /** Critical and breach events of the last 720 hours. */
  severeEvents720h: number
  /** Start of monitoring; null when unknown. */
  observingSinceMs: number | null
}

const weekMs = 7 * dayMs
const cleanWindowMs = 720 * hourMs

/**
 * Returns the attestations of one week: always the posture, and the clean runtime only when all 720 hours were
 * monitored without a critical event or a breach. An unknown count or start never counts as clean.
 */
export function weeklyAttestations(inputs: WeeklyInputs): Attestation[] {
  const { nowMs, riskScore, severeEvents720h, observingSinceMs } = inputs
  const watched = observingSinceMs !== null && nowMs - observingSinceMs >= cleanWindowMs
  const kinds: AttestationKind[] = watched && severeEvents720h === 0 ? ['posture', 'runtime.clean'] : ['posture']
  return kinds.map((kind) => buildAttestation({ kind, nowMs, riskScore }))
}

/**
 * Builds one attestation and its hash. It names no agent, event or person, because it is public. Throws RangeError for
 * a risk score that is not an integer from 0 to 100, so that no false claim is published.
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
 * Returns `0x` and the hex SHA-256 of the record as canonical JSON (RFC 8785) in UTF-8. The time is hashed as ISO 8601,
 * like in the public summary, so that readers can compute the hash from the published fields.
 */
export function attestationHash(record: AttestationRecord): string {
  const at = new Date(record.at).toISOString()
  return `0x${hash('sha256', attestationText({ ...record, at }), 'hex')}`
}

/** Returns the first 6 and last 4 characters of a `0x` hash, such as `0xdead...beef`. */
export function hashPreview(hash: string): string {
  return `${hash.slice(0, 6)}...${hash.slice(-4)}`
}

/** True without an earlier attestation, and from 7 days after the last one. */
export function attestationDue(lastAtMs: number | null, nowMs: number): boolean {
  return lastAtMs === null || nowMs - lastAtMs >= weekMs
}

/**
 * Returns the ISO 8601 week of a time in UTC, such as `2026-W47`. The database has a unique key on week and tag, so of
 * two processes that attest at the same moment only one succeeds. Weeks begin on Monday and belong to the year of their
 * Thursday.
 */
export function isoWeek(atMs: number): string {
  const daysSinceMonday = (new Date(atMs).getUTCDay() + 6) % 7
  const thursday = new Date(atMs + (3 - daysSinceMonday) * dayMs)
  const year = thursday.getUTCFullYear()
  const week = 1 + Math.floor((thursday.getTime() - Date.UTC(year, 0, 1)) / weekMs)
  return `${year}-W${String(week).padStart(2, '0')}`
}
