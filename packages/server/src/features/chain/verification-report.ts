import { canonicalJson } from '@wardline/contract'
import type { Hex } from 'viem'
import { isoTime } from '../../clock.ts'
import type { VerificationsTable } from '../../db/schema/trust.ts'
import { hashOf } from './documents.ts'

/** ERC-8126 defines neither a tag nor a polarity, so Wardline defines both. */
export const verificationTag = 'erc8126.risk'

/** Converts an ERC-8126 risk (0 is best) to an ERC-8004 response (100 is best). */
export const responseOf = (risk: number): number => 100 - risk

/** A verification, as far as it is posted. */
export type VerifiedAgent = Pick<
  VerificationsTable,
  | 'id'
  | 'at'
  | 'agent_registry'
  | 'agent_id'
  | 'agent_uri'
  | 'agent_uri_hash'
  | 'document_hash'
  | 'applies'
  | 'wallet'
  | 'wav_score'
  | 'wav_notes'
  | 'wv_score'
  | 'wv_notes'
  | 'unified_score'
>

interface PostedScores extends VerifiedAgent {
  agent_registry: string
  agent_id: string
  applies: string
  wav_score: number
  wv_score: number
  unified_score: number
}

/** Throws, with what to do, unless the verification is of an agent and has both scores that ERC-8126 requires for every agent. */
export function assertPostable(scores: VerifiedAgent): asserts scores is PostedScores {
  const { agent_id, wav_score, wav_notes, wv_score, wv_notes } = scores
  if (agent_id === null)
    throw new Error('There is no identity to verify: run `wardline chain register`, or set TRUST_AGENT_ID.')
  const missing = [
    ...(wav_score === null ? [`the web application (WAV) has none: ${wav_notes}`] : []),
    ...(wv_score === null ? [`the wallet (WV) has none: ${wv_notes}`] : []),
  ]
  if (missing.length > 0)
    throw new Error(
      `Nothing was posted, because ERC-8126 requires two scores for every agent, and ${missing.join(' And ')} \`wardline chain check\` says what to correct.`,
    )
}

/**
 * Returns the request and report for the registry; the transactions carry their hashes. The id keeps equal scores of
 * two weeks from being the same request.
 */
export function verificationTexts(scores: PostedScores) {
  const { id, wav_score, wv_score, unified_score } = scores
  const { agent_registry, agent_id, agent_uri, agent_uri_hash, document_hash, wallet } = scores
  const about = { agent_registry, agent_id, agent_uri, agent_uri_hash, document_hash, wallet, at: isoTime(scores.at) }
  const request = canonicalJson({ type: 'wardline.verification-request.v2', ...about, id })
  const requestHash: Hex = hashOf(request) as Hex
  const scored = ['wav', 'wv']
  const not_checked = scores.applies.split(',').filter((type) => type !== '')
  const report = canonicalJson({
    type: 'wardline.verification-report.v2',
    ...about,
    request_hash: requestHash,
    applies: [...scored, ...not_checked],
    scores: { wav: wav_score, wv: wv_score },
    scored,
    not_checked,
    unified_risk_score: unified_score,
    response: responseOf(unified_score),
    polarity: 'unified_risk_score: 0 is best; response = 100 - unified_risk_score: 100 is best',
    self_attested: true,
  })
  return { request, requestHash: requestHash as string, report }
}
