import { cutText, sanitize, utf16Size } from '@wardline/text'
import { hourMs } from '../../clock.ts'
import type { Config } from '../../config/config.ts'
import type { Deps } from '../../deps.ts'
import { createEgress } from '../../egress/open-egress.ts'
import type { Ingest } from '../events/ingest.ts'
import type { AttestationSink, SubmittedRecord } from './attestation-sink.ts'
import {
  noteChecked,
  readSender,
  readTransaction,
  readTransactions,
  readUnchecked,
  storeIdentity,
} from './chain-queries.ts'
import { readIdentity } from './chain-statements.ts'
import { Drops } from './drops.ts'
import { createEas } from './eas.ts'
import { createFeedbackSink } from './feedback-sink.ts'
import { ether } from './fees.ts'
import { agentIdOf, agentOfSetUri, isOwnAgent, readAgentUri } from './identity-registry.ts'
import { agentRegistryOf, easOf, identityRegistryOf, reputationRegistryOf, unavailable } from './known-contracts.ts'
import { readKnownIdentity } from './known-identity.ts'
import { createOperatorPlans, subjects } from './operator-plans.ts'
import { OtherAttestations } from './other-attestations.ts'
import { type ReadResult, TransactionQueue } from './queue.ts'
import { agentUriOf } from './registration.ts'
import { reportChain } from './reports.ts'
import { Rpc, RpcError, rpcDeadlineMs } from './rpc.ts'
import { openSigner } from './signer.ts'
import { createValidationRegistry } from './validation-registry.ts'
import { createValidationSink } from './validation-sink.ts'

/** How often revocations and owners are read again. */
const checkEveryMs = hourMs
/** Longer than the URI of any configuration. */
const maxUri = 8_192
/** Attestations checked per turn; the summary shows twenty. */
const checkRows = 20

/**
 * Returns the sink for attestations; undefined when the contract's address is unknown. Config validation guarantees the
 * settings each sink needs.
 */
function createSink(config: Config, wallet: string): AttestationSink | undefined {
  const { trustAttestTo, trustAgentId: agentId, trustValidationRegistry } = config
  if (trustAttestTo === 'eas' || agentId === undefined) {
    const eas = easOf(config)
    return eas === undefined ? undefined : createEas(eas, wallet)
  }
  const agentRegistry = agentRegistryOf(config)
  if (trustAttestTo === 'feedback') {
    const registry = reputationRegistryOf(config)
    return createFeedbackSink({ chainId: config.trustChainId, registry, agentId, wallet }, agentRegistry)
  }
  return trustValidationRegistry === undefined
    ? undefined
    : createValidationSink(trustValidationRegistry, { agentRegistry, agentId }, wallet)
}

export type Chain = Awaited<ReturnType<typeof createChain>>

/**
 * Creates the on-chain part: the wallet's transaction queue, attestations and the identity. Imported only when an RPC
 * is configured.
 */
export async function createChain(deps: Deps) {
  const { config, database, clock, log } = deps
  const { trustChainId: chainId, trustValidationRegistry } = config
  const { db } = database
  const egress = createEgress({ guarded: false, allow: [], deadlineMs: rpcDeadlineMs })
  const ending = new AbortController()
  const wallet = await openSigner(config, egress, ending.signal)
  const rpc = new Rpc(config.trustRpcUrl!, egress, ending.signal)
  const registry = identityRegistryOf(config)
  const sink = wallet && createSink(config, wallet.address)
  if (config.trustAttestOnChain && !sink) throw unavailable('TRUST_EAS_ADDRESS')
  const validation =
    trustValidationRegistry !== undefined && wallet
      ? createValidationRegistry(trustValidationRegistry, wallet.address)
      : undefined

  let checkedAt = -Infinity
  let isIdentityChanged = false
  const checkAgain = () => {
    checkedAt = -Infinity
    isIdentityChanged = true
  }
  // The receipt and the contract's state are separate responses of the node, and both must agree.
  const readResult: ReadResult = async (row, receipt) => {
    const { kind, subject, sender, data } = row
    const { hash: txHash, logs } = receipt
    switch (kind) {
      case 'register': {
        const agentId = agentIdOf(logs, registry, sender)
        if (agentId === undefined || !(await isOwnAgent(rpc, registry, agentId, sender))) return undefined
        checkAgain()
        return agentId
      }
      case 'set-uri': {
        const agentId = await agentOfSetUri(rpc, row, receipt)
        if (agentId !== undefined) checkAgain()
        return agentId
      }
      case 'validate':
      case 'ask':
        return validation?.isRequested(logs, subject) ? subject : undefined
      case 'respond':
        return (await validation?.isAnswered(rpc, data, logs)) ? subject : undefined
      case 'attest': {
        const uid = sink?.uidOf(logs, data)
        return uid !== undefined && (await sink!.state(rpc, { uid, hash: subject, txHash })) ? uid : undefined
      }
      default:
        return subject
    }
  }
  const queue = wallet && new TransactionQueue(deps, { rpc, wallet, readResult })
  const others = new OtherAttestations(deps, rpc)

  /** Reads who owns the configured agent, or else the one that this service registered. */
  async function checkIdentity(): Promise<void> {
    const row = queue && (await readTransaction(db, queue.account, 'register', subjects.register))
    const registered = row?.state === 'confirmed' ? row : undefined
    const agentId = config.trustAgentId ?? registered?.result
    const known = await readIdentity(db)
    const isKnown = known?.agent_id === agentId && known?.registry === registry
    const isStale = !isKnown || isIdentityChanged || clock.now() - known.checked_at >= checkEveryMs
    if (agentId === undefined || agentId === null || !isStale) return
    await rpc.assertChain(chainId)
    const owner = wallet?.address ?? config.trustWallet
    const isOurs = owner !== undefined && (await isOwnAgent(rpc, registry, agentId, owner))
    const uri = isOurs ? await readUri(agentId) : undefined
    isIdentityChanged = false
    await storeIdentity(db, {
      chain_id: chainId,
      registry,
      agent_id: agentId,
      status: isOurs ? 'live' : 'unverified',
      wallet: owner ?? null,
      register_tx_hash: registered?.result === agentId ? registered.tx_hash : null,
      uri: uri ?? null,
      checked_at: clock.now(),
    })
  }

  /** Whatever the URI is, the identity is checked. Undefined if the node does not give it. */
  async function readUri(agentId: string): Promise<string | undefined> {
    try {
      const uri = await readAgentUri(rpc, registry, agentId)
      return uri === undefined ? undefined : sanitize(cutText(uri, maxUri, utf16Size))
    } catch (fault) {
      if (!(fault instanceof RpcError)) throw fault
      log.warn({ fault: fault.message }, 'the URI of the identity was not read')
      return undefined
    }
  }

  /** Returns the URI that the configuration gives when the registry has another one for our agent. */
  async function newUri(): Promise<string | undefined> {
    const known = await readKnownIdentity(deps)
    if (known?.status !== 'live' || known.uri === null) return undefined
    const uri = agentUriOf(config, known.agent_id)
    return uri === known.uri ? undefined : uri
  }

  async function checkRevocations(): Promise<void> {
    if (!queue || !sink) return
    for (const row of await readUnchecked(db, queue.account, clock.now() - checkEveryMs, checkRows)) {
      const written = { uid: row.result!, hash: row.subject, txHash: row.tx_hash! }
      const state = await sink.state(rpc, written)
      await noteChecked(db, row.id, clock.now(), state?.isRevoked === true)
    }
  }

  return {
    newUri,

    ...createOperatorPlans(deps, { rpc, queue, wallet, registry, sink, validation }),

    /** Undefined without a wallet. */
    drops: queue && new Drops(deps, { queue, rpc }),

    /** Periodic job. Errors of the node are logged and do not fail the job. */
    async run(): Promise<void> {
      await queue?.run()
      if (clock.monotonic() < checkedAt + 60_000) return
      checkedAt = clock.monotonic()
      try {
        await checkIdentity()
        await checkRevocations()
        await others.run()
      } catch (fault) {
        if (!(fault instanceof RpcError)) throw fault
        log.warn({ fault: fault.message }, 'the chain was not read')
      }
    },

    /** Periodic job: reports failed and unconfirmed transactions, refused nonces and an unreachable node as events. */
    report: async (ingest: Pick<Ingest, 'own' | 'storeWithin'>) => queue && reportChain(deps, ingest, queue.account),

    /** Queues attestations, each at most once. */
    async submit(records: readonly SubmittedRecord[]): Promise<void> {
      if (!config.trustAttestOnChain || !queue || !sink) return
      for (const record of records) {
        const before = sink.prepare?.(record)
        const ask = before ? [{ kind: 'ask' as const, ...before, max_cost: null }] : []
        await queue.add(...ask, { kind: 'attest', subject: record.hash, ...sink.write(record), max_cost: null })
      }
    },

    async status() {
      const balance = wallet && (await rpc.balance(wallet.address))
      return {
        chainId,
        rpcChainId: await rpc.chainId(),
        head: await rpc.head(),
        wallet: wallet?.address ?? null,
        balance: balance === undefined ? null : ether(balance),
        identity: (await readIdentity(db)) ?? null,
        newUri: (await newUri()) ?? null,
        lastError: (queue && (await readSender(db, queue.account))?.last_error) ?? null,
        transactions: await readTransactions(db, 20),
      }
    },

    /** Aborts open requests, so that a slow node does not delay shutdown. The next process sends what is stored. */
    close(): void {
      ending.abort()
      egress.close()
    },
  }
}
