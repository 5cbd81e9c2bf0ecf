import { type AgentRegistration, endpoints, type SignedAttestation, type TrustSummary } from '@wardline/contract'
import { dayMs, isoTime } from '../../clock.ts'
import { attestationUrl, networkOf, transactionUrl } from '../../config/known-chains.ts'
import { readFirstStart } from '../../db/migrate.ts'
import type { Deps } from '../../deps.ts'
import type { SubmittedRecord } from '../chain/attestation-sink.ts'
import { readOnChain } from '../chain/chain-statements.ts'
import { readKnownIdentity } from '../chain/known-identity.ts'
import { registrationOf } from '../chain/registration.ts'
import { lastSweep } from '../detection/scout.ts'
import { type EventFigures, readEventFigures } from '../events/posture.ts'
import { type FleetCount, fleetCount } from '../instances/fleet-count.ts'
import { attestationDue, hashPreview, weeklyAttestations } from './attestation.ts'
import { attestationsByOthers } from './by-others.ts'
import { chainStatus, identityOf } from './identity.ts'
import { insertAttestations, readAttestations, readLastAttestation, readSigned } from './queries.ts'
import { relativeTime } from './relative-time.ts'
import { decayedBreaches, type RiskScore, riskScore, riskTierLabel } from './risk-score.ts'
import { publishedPosting, publishedScores, readCurrent } from './verification/published.ts'
import { verifiedSubject } from './verification/subject.ts'

const shownAttestations = 20
const scoutActiveMs = 90_000
const specUrl = 'https://eips.ethereum.org/EIPS/eip-8126'

function scoreOf(figures: EventFigures, fleet: FleetCount): RiskScore {
  return riskScore({
    breach: decayedBreaches(figures.breaches),
    critical: figures.critical24h,
    incident: figures.critical30d - figures.critical24h,
    suspended: fleet.suspended,
    agents: fleet.total,
    injection: figures.mildInjections24h,
    warning: figures.plainWarnings24h,
  })
}

async function readPosture({ database: { db } }: Deps, now: number) {
  const [figures, fleet] = await Promise.all([readEventFigures(db, now), fleetCount(db, now)])
  return { figures, fleet, risk: scoreOf(figures, fleet) }
}

/** Reads on-chain proofs from the database, so that the summary never waits for a node. */
async function onChainOf({ database, config }: Deps, attestations: readonly SubmittedRecord[]) {
  const byHash = new Map<string, Pick<TrustSummary['attestations'][number], 'on_chain'>>()
  if (config.trustRpcUrl === undefined) return byHash
  const { trustChainId } = config
  const proofs = await readOnChain(
    database.db,
    trustChainId,
    attestations.map(({ hash }) => hash),
  )
  const network = networkOf(trustChainId)
  for (const { hash, uid, txHash, sink, contract, attester } of proofs) {
    const { namespace, tag, score } = attestations.find((attestation) => attestation.hash === hash)!
    const explorer_url = transactionUrl(trustChainId, txHash)
    const attestation_url = sink ? undefined : attestationUrl(trustChainId, contract, uid)
    byHash.set(hash, {
      on_chain: {
        ...{ uid, tx_hash: txHash, explorer_url, namespace, tag, score, ...(sink ? { sink } : {}) },
        ...{ chain: network.id, contract, attester, network, ...(attestation_url ? { attestation_url } : {}) },
      },
    })
  }
  return byHash
}

/** Describes the signed attestation, which may be of an earlier key or chain. */
function offChainOf(signed: string): Pick<TrustSummary['attestations'][number], 'off_chain'> {
  const { sig, signer } = JSON.parse(signed) as SignedAttestation
  const { chainId, verifyingContract } = sig.domain
  const url = endpoints.getAttestation.path.replace(':uid', sig.uid)
  return {
    off_chain: { uid: sig.uid, attester: signer, chain: `eip155:${chainId}`, contract: verifyingContract, url },
  }
}

/**
 * Builds the public posture from aggregates and the configured identity. It contains no agent's name or id and no event
 * text.
 */
async function buildTrustSummary(deps: Deps, now: number): Promise<TrustSummary> {
  const { db } = deps.database
  const [{ figures, fleet, risk }, sweptAt, attestations] = await Promise.all([
    readPosture(deps, now),
    lastSweep(db),
    readAttestations(db, shownAttestations),
  ])
  const onChain = await onChainOf(deps, attestations)
  const known = await readKnownIdentity(deps)
  const identity = identityOf(deps.config, known)
  const subject = verifiedSubject(deps.config, known)
  const verification = publishedScores(await readCurrent(deps, subject), risk.score)
  const posting = await publishedPosting(deps, subject)
  const timeOrNull = (time: number | null) => (time === null ? null : isoTime(time))
  return {
    generated_at: isoTime(now),
    risk_score: risk.score,
    risk_tier: risk.tier,
    risk_tier_label: riskTierLabel(risk.tier),
    risk_points: risk.points,
    risk_method: 'wardline-headroom-1',
    monitoring: {
      scout_active: sweptAt !== null && now - sweptAt <= scoutActiveMs,
      agents_protected: fleet.total,
      agents_active: fleet.active,
      agents_suspended: fleet.suspended,
      last_scan_at: timeOrNull(sweptAt),
      last_scan_relative: relativeTime(sweptAt, now),
      last_heartbeat_at: timeOrNull(fleet.lastHeartbeatAt),
    },
    metrics: {
      injection_blocks_24h: figures.injectionBlocks24h,
      runtime_incidents_30d: figures.incidents30d,
      events_today: figures.eventsToday,
      threats_24h: figures.threats24h,
      blocked_24h: figures.blocked24h,
    },
    attestations: attestations.map(({ at, hash, uid: _, signed, ...fields }) => ({
      ...fields,
      hash,
      hash_preview: hashPreview(hash),
      at: isoTime(at),
      ...(signed === null ? {} : offChainOf(signed)),
      ...onChain.get(hash),
    })),
    ...(await attestationsByOthers(deps, known, now)),
    identity,
    verification: {
      ...verification,
      on_chain: posting,
      spec_url: specUrl,
    },
    chain: chainStatus(deps.config, identity, {
      ...verification,
      isPosted: posting.request_hash !== null,
    }),
    source: 'wardline',
  }
}

/**
 * Signs and stores the week's attestations when they are due. Without agents there is nothing to attest. Nothing is stored
 * when signing fails: the next run makes the attestations again.
 */
export async function attestWeekly(deps: Deps, stopping?: AbortSignal): Promise<void> {
  const now = deps.clock.now()
  const { db } = deps.database
  if (!attestationDue(await readLastAttestation(db), now)) return
  const { figures, fleet, risk } = await readPosture(deps, now)
  if (fleet.total === 0) return
  const attestations = weeklyAttestations({
    nowMs: now,
    riskScore: risk.score,
    severeEvents720h: figures.incidents30d,
    observingSinceMs: await readFirstStart(db),
  })
  // Imported on demand, because the chain libraries take 0.2 s and 20 MiB to load.
  const { signAttestations } = await import('../chain/off-chain.ts')
  await insertAttestations(db, await signAttestations(deps, attestations, stopping))
}

/** Returns the attestations of the last 7 days. Older ones are no longer sent to a chain. */
export async function newAttestations({ database, clock }: Deps): Promise<SubmittedRecord[]> {
  const newest = await readAttestations(database.db, shownAttestations)
  return newest.filter(({ at }) => clock.now() - at < 7 * dayMs)
}

/** Returns the signed attestation with this uid as JSON. */
export const signedAttestation = ({ database }: Pick<Deps, 'database'>, uid: string) => readSigned(database.db, uid)

/** Returns the registration file that the on-chain identity points to. Before registration it names no identity. */
export async function agentRegistration(deps: Deps): Promise<AgentRegistration> {
  const known = await readKnownIdentity(deps)
  return registrationOf(deps.config, deps.config.trustAgentId ?? known?.agent_id)
}

interface TrustSnapshot {
  summary: TrustSummary
  /** The summary as JSON. */
  body: string
}

/**
 * Shares one snapshot between all callers for its maximum age, so that repeated requests cause no load and let an
 * attacker probe only once per snapshot.
 */
export function createTrustSnapshot(deps: Deps): () => Promise<TrustSnapshot> {
  let latest: { at: number; snapshot: Promise<TrustSnapshot> } | undefined
  return () => {
    const now = deps.clock.now()
    const age = now - (latest?.at ?? Number.NEGATIVE_INFINITY)
    if (latest && age >= 0 && age < deps.config.trustSnapshotSeconds * 1000) return latest.snapshot
    const snapshot = buildTrustSummary(deps, now).then((summary) => ({ summary, body: JSON.stringify(summary) }))
    const fresh = { at: now, snapshot }
    latest = fresh
    snapshot.catch(() => {
      if (latest === fresh) latest = undefined
    })
    return snapshot
  }
}
