import { type Erc8126Error, erc8126Errors, type TrustSummary } from '@wardline/contract'
import { dayMs, hourMs, isoTime } from '../../../clock.ts'
import { transactionUrl } from '../../../config/known-chains.ts'
import type { VerificationsTable } from '../../../db/schema/trust.ts'
import type { Deps } from '../../../deps.ts'
import { readPostings } from '../../chain/chain-statements.ts'
import { readKnownIdentity } from '../../chain/known-identity.ts'
import { riskTier, riskTierLabel } from '../risk-score.ts'
import { coverageOf } from './score.ts'
import { verifiedSubject } from './subject.ts'
import { readPosted, readVerification, type VerifiedSubject } from './verification-queries.ts'

const weekMs = 7 * dayMs

/** Returns the scores of the subject, unless they are older than 30 days. */
export const readCurrent = ({ database, clock }: Pick<Deps, 'database' | 'clock'>, subject: VerifiedSubject) =>
  readVerification(database.db, subject, clock.now())

/** Periodic job: verifies once a week, or after an hour if a check could not be completed. */
export async function verifyWeekly(deps: Deps, stopping?: AbortSignal): Promise<void> {
  const subject = verifiedSubject(deps.config, await readKnownIdentity(deps))
  // The identity may be registered later.
  if (subject.agent_id === null && subject.url === null) return
  const last = await readCurrent(deps, subject)
  if (last && deps.clock.now() - last.at < (last.is_complete === 1 ? weekMs : hourMs)) return
  // Imported on demand, because TLS and the checks take memory.
  const { verifySelf } = await import('./verify.ts')
  const found = await verifySelf(deps, stopping)
  if (!found) return
  const { row, wav, wv } = found
  const { wav_score, wv_score, unified_score } = row
  const details = [...wav.details, ...wv.details]
  deps.log[details.length > 0 ? 'warn' : 'info']({ wav_score, wv_score, unified_score, details }, 'verified itself')
}

type Verification = TrustSummary['verification']

/** Postings cost money and come weekly, so only the latest few matter. */
const lookedAt = 10

const nothingPosted: Verification['on_chain'] = {
  request_hash: null,
  request_tx_hash: null,
  response_tx_hash: null,
  request_explorer_url: null,
  response_explorer_url: null,
  submitted_at: null,
}

/** Returns the latest verification whose request and response are confirmed. Reads the database only, not a node. */
export async function publishedPosting(
  { database, config, clock }: Pick<Deps, 'database' | 'config' | 'clock'>,
  subject: VerifiedSubject,
) {
  const { trustChainId, trustValidationRegistry } = config
  if (subject.agent_id === null || trustValidationRegistry === undefined) return nothingPosted
  const posted = await readPosted(database.db, subject, clock.now(), lookedAt)
  const hashes = posted.map(({ request_hash }) => request_hash!)
  const confirmed = await readPostings(database.db, trustChainId, hashes)
  for (const { request_hash, report } of posted) {
    const found = confirmed.find(
      ({ requestHash, registry }) =>
        requestHash === request_hash && registry.toLowerCase() === trustValidationRegistry.toLowerCase(),
    )
    if (!found) continue
    return {
      request_hash,
      request_tx_hash: found.requestTxHash,
      response_tx_hash: found.responseTxHash,
      request_explorer_url: transactionUrl(trustChainId, found.requestTxHash),
      response_explorer_url: transactionUrl(trustChainId, found.responseTxHash),
      submitted_at: isoTime(found.sentAt),
      validation_registry: found.registry,
      report: report!,
    }
  }
  return nothingPosted
}

const shown = (risk: number | null, notes: string, error: string | null): Verification['scores']['wav'] => ({
  applicable: risk !== null,
  risk_score: risk ?? 0,
  notes,
  ...(error === null ? {} : { error: error as Erc8126Error, error_code: erc8126Errors[error as Erc8126Error] }),
})

/** Returns the published scores. Without a verification, the unified score is the runtime score. */
export function publishedScores(row: VerificationsTable | undefined, runtime: number) {
  const unified = row ? row.unified_score : runtime
  return {
    unified_risk_score: unified,
    unified_risk_tier: unified === null ? null : riskTier(unified),
    unified_risk_tier_label: unified === null ? 'Not assessed' : riskTierLabel(riskTier(unified)),
    scores: {
      wav: row ? shown(row.wav_score, row.wav_notes, row.wav_error) : shown(null, 'Not assessed.', null),
      wv: row ? shown(row.wv_score, row.wv_notes, row.wv_error) : shown(null, 'Not assessed.', null),
    },
    ...(row ? { ...coverageOf(row), self_attested: true as const, checked_at: isoTime(row.at) } : {}),
  }
}
