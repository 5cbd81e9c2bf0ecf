import { canonicalJson } from '@wardline/contract'
import type { Hex } from 'viem'
import { keccak256, stringToHex } from 'viem/utils'
import { isoTime } from '../../clock.ts'

/** ERC-8126 names neither a tag nor a polarity: both are of this service. */
export const verificationTag = 'erc8126.risk'

/** Of ERC-8126 0 is best, of ERC-8004 100. */
export const responseOf = (risk: number): number => 100 - risk

/** The scores of a verification that has some. */
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

/** The document goes with the transaction: it can be read as long as the chain can. */
export const dataUriOf = (text: string): string =>
  `data:application/json;base64,${Buffer.from(text, 'utf8').toString('base64')}`

/** What a registry gets: the hash of each text is in the transaction. The id makes equal scores of two weeks two requests. */
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
