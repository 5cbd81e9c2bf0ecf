import type { Deps } from '../../../deps.ts'
import { createEgress } from '../../../egress/open-egress.ts'
import { uuidV7 } from '../../../ids.ts'
import { hashOf } from '../../chain/documents.ts'
import { type RegisteredAgent, readAgent } from '../../chain/identity-registry.ts'
import { identityRegistryOf } from '../../chain/known-contracts.ts'
import { readKnownIdentity } from '../../chain/known-identity.ts'
import { Rpc, RpcError, rpcDeadlineMs } from '../../chain/rpc.ts'
import { maxUrlLength } from './follow-redirects.ts'
import { RegistrationError, type RegistrationFile, readRegistration } from './registration-file.ts'
import { coverageOf, notApplicable, notScored, type Score, unifiedScore } from './score.ts'
import { verifiedSubject } from './subject.ts'
import { insertVerification, notePosting } from './verification-queries.ts'
import { checkWallet } from './wallet-check.ts'
import { checkWeb, type WebEndpoint } from './web-check.ts'

interface Findings {
  wav: Score
  wv: Score
  /** What the registry says of the agent; undefined without one, or if it could not be read. */
  agent?: RegisteredAgent
  /** Undefined if it could not be read. */
  file?: RegistrationFile
}

/**
 * Whether the URI is stored and posted besides its hash. A longer one is a data URI, which would make both transactions
 * several times as expensive; a URI has no other characters (RFC 3986), and PostgreSQL stores no NUL.
 */
const isRepeated = (uri: string) => uri.length <= maxUrlLength && /^[\x21-\x7e]+$/.test(uri)

/** Opens the connections for URLs that others chose, and closes them after the work. */
async function guarded<Result>({ config }: Deps, work: (egress: ReturnType<typeof createEgress>) => Promise<Result>) {
  const egress = createEgress({ guarded: true, allow: config.alertAllowCidrs ?? [] })
  try {
    return await work(egress)
  } finally {
    egress.close()
  }
}

const checkEndpoints = (deps: Deps, endpoints: WebEndpoint[], signal?: AbortSignal): Promise<Score> =>
  guarded(deps, (egress) => checkWeb(endpoints, { egress, now: deps.clock.now(), signal }))

/** No score of either type, for one reason. */
const unscored = (...reason: Parameters<typeof notScored>) => ({ wav: notScored(...reason), wv: notScored(...reason) })

function nodeFault(fault: RpcError): Parameters<typeof notScored> {
  return fault.kind === 'revert'
    ? ['AgentNotFound', 'The identity registry has no such agent.', fault.message]
    : ['ProviderUnavailable', 'The identity registry could not be read.', fault.message]
}

/** Checks the agent by what the registry says of it, as ERC-8126 requires: nothing of it comes from the settings. */
async function checkAgent(deps: Deps, rpc: Rpc, agentRegistry: string, agentId: string, signal?: AbortSignal) {
  const { config } = deps
  let agent: RegisteredAgent | undefined
  try {
    const chainId = await rpc.chainId()
    if (chainId !== config.trustChainId)
      throw new RpcError(`The RPC serves chain ${chainId}, TRUST_CHAIN_ID is ${config.trustChainId}.`, 'wrong')
    agent = await readAgent(rpc, identityRegistryOf(config), agentId)
    const { uri, wallet: address } = agent
    const file = await guarded(deps, (egress) => readRegistration({ uri, agentRegistry, agentId, egress, signal }))
    const [wav, wv] = await Promise.all([
      checkEndpoints(deps, file.endpoints, signal),
      checkWallet({ address, rpc, badAddressesFile: config.trustBadAddressesFile }).catch((fault) => {
        if (!(fault instanceof RpcError)) throw fault
        return notScored('ProviderUnavailable', 'The wallet could not be checked.', fault.message)
      }),
    ])
    return { wav, wv, agent, file }
  } catch (fault) {
    if (fault instanceof RpcError) return unscored(...nodeFault(fault))
    if (!(fault instanceof RegistrationError)) throw fault
    return { ...unscored(fault.error, fault.note, fault.message), agent }
  }
}

async function findingsOf(deps: Deps, subject: ReturnType<typeof verifiedSubject>, signal?: AbortSignal) {
  const { agent_id, agent_registry, url } = subject
  if (agent_id === null || agent_registry === null) {
    if (url === null)
      throw new Error('There is nothing to verify: set WARDLINE_PUBLIC_URL, or TRUST_RPC_URL and an identity.')
    return {
      wav: await checkEndpoints(deps, [{ url, kind: 'page' }], signal),
      wv: notApplicable('Not checked: there is no on-chain agent, whose wallet it would be.'),
    }
  }
  const egress = createEgress({ guarded: false, allow: [], deadlineMs: rpcDeadlineMs })
  try {
    return await checkAgent(deps, new Rpc(deps.config.trustRpcUrl!, egress, signal), agent_registry, agent_id, signal)
  } finally {
    egress.close()
  }
}

/**
 * Verifies the on-chain agent, or without one the configured address, and stores the scores, including null for checks
 * that could not be made. Undefined when the signal aborted it.
 */
export async function verifySelf(deps: Deps, signal?: AbortSignal) {
  const subject = verifiedSubject(deps.config, await readKnownIdentity(deps))
  const { wav, wv, agent, file }: Findings = await findingsOf(deps, subject, signal)
  if (signal?.aborted) return undefined
  const at = deps.clock.now()
  const uri = agent?.uri
  const row = {
    id: uuidV7(at),
    at,
    ...subject,
    wallet: agent?.wallet ?? null,
    agent_uri: uri !== undefined && isRepeated(uri) ? uri : null,
    agent_uri_hash: uri === undefined ? null : hashOf(uri),
    document_hash: file ? hashOf(file.text) : null,
    applies: file ? file.applies.join(',') : null,
    wav_score: wav.risk,
    wav_notes: wav.notes,
    wav_error: wav.error ?? null,
    wv_score: wv.risk,
    wv_notes: wv.notes,
    wv_error: wv.error ?? null,
    unified_score: unifiedScore([wav.risk, wv.risk]),
    is_complete: (wav.error ?? wv.error) ? 0 : 1,
    request_hash: null,
    report: null,
  }
  await insertVerification(deps.database.db, row)
  const note = (requestHash: string, report: string) => notePosting(deps.database.db, row.id, requestHash, report)
  return { row, wav, wv, ...coverageOf(row), notePosting: note }
}
