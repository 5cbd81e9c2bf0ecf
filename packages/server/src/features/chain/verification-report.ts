import { canonicalJson } from '@wardline/contract'
import type { Hex } from 'viem'
import { keccak256, stringToHex } from 'viem/utils'
import { isoTime } from '../../clock.ts'

/** ERC-8126 defines neither a tag nor a polarity, so Wardline defines both. */
export const verificationTag = 'erc8126.risk'

/** Converts an ERC-8126 risk (0 is best) to an ERC-8004 response (100 is best). */
export const responseOf = (risk: number): number => 100 - risk

/** A verification with at least one score. */
export interface PostedScores {
  id: string
  at: number
  url: string | null
  wallet: string | null
  wav_score: number | null
  wv_score: number | null
  unified_score: number
}

export const hashOf = (text: string): string => keccak256(stringToHex(text)) as string

/**
 * Returns the request and report for the registry; the transactions carry their hashes. The id keeps equal scores of
 * two weeks from being the same request.
 */
export function verificationTexts(agentRegistry: string, agentId: string, scores: PostedScores) {
  const { id, at, url, wallet, wav_score, wv_score, unified_score } = scores
  const agent = { agent_registry: agentRegistry, agent_id: agentId }
  const request = canonicalJson({
    type: 'wardline.verification-request.v1',
    ...agent,
    id,
    at: isoTime(at),
    url,
    wallet,
  })
  const requestHash: Hex = hashOf(request) as Hex
  const report = canonicalJson({
    type: 'wardline.verification-report.v1',
    ...agent,
    request_hash: requestHash,
    at: isoTime(at),
    scores: { wav: wav_score, wv: wv_score },
    unified_risk_score: unified_score,
    response: responseOf(unified_score),
    polarity: 'unified_risk_score: 0 is best; response = 100 - unified_risk_score: 100 is best',
    self_attested: true,
  })
  return { request, requestHash: requestHash as string, report }
}
