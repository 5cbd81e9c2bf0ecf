import { hourMs } from '../../clock.ts'
import type { Config } from '../../config/config.ts'
import type { Deps } from '../../deps.ts'
import { createEgress } from '../../egress/open-egress.ts'
import { openWallet } from '../../wallet.ts'
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
import { agentIdOf, isOwnAgent } from './identity-registry.ts'
import { easOf, identityRegistryOf, reputationRegistryOf, unavailable } from './known-contracts.ts'
import { createOperatorPlans, subjects } from './operator-plans.ts'
import { type ReadResult, TransactionQueue } from './queue.ts'
import { reportChain } from './reports.ts'
import { Rpc, RpcError, rpcDeadlineMs } from './rpc.ts'
import { createValidationRegistry } from './validation-registry.ts'
import { createValidationSink } from './validation-sink.ts'

/** How often revocations and owners are read again. */
const checkEveryMs = hourMs
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
  if (trustAttestTo === 'feedback') return createFeedbackSink(reputationRegistryOf(config), agentId, wallet)
  return trustValidationRegistry === undefined
    ? undefined
    : createValidationSink(trustValidationRegistry, agentId, wallet)
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
  const wallet = await openWallet(config)
  const egress = createEgress({ guarded: false, allow: [], deadlineMs: rpcDeadlineMs })
  const ending = new AbortController()
  const rpc = new Rpc(config.trustRpcUrl!, egress, ending.signal)
  const registry = identityRegistryOf(config)
  const sink = wallet && createSink(config, wallet.address)
  if (config.trustAttestOnChain && !sink) throw unavailable('TRUST_EAS_ADDRESS')
  const validation =
    trustValidationRegistry !== undefined && wallet
      ? createValidationRegistry(trustValidationRegistry, wallet.address)
      : undefined

  let checkedAt = -Infinity
  // The receipt and the contract's state are separate responses of the node, and both must agree.
  const readResult: ReadResult = async ({ kind, subject, sender, data }, { hash: txHash, logs }) => {
    switch (kind) {
      case 'register': {
        const agentId = agentIdOf(logs, registry, sender)
        if (agentId === undefined || !(await isOwnAgent(rpc, registry, agentId, sender))) return undefined
        checkedAt = -Infinity
        return agentId
      }
      case 'validate':
      case 'ask':
        return validation?.isRequested(logs, subject) ? subject : undefined
      case 'respond':
        return (await validation?.isAnswered(rpc, data, logs)) ? subject : undefined
      case 'attest': {
        const uid = sink?.uidOf(logs, subject)
        return uid !== undefined && (await sink!.state(rpc, { uid, hash: subject, txHash })) ? uid : undefined
      }
      default:
        return subject
    }
  }
  const queue = wallet && new TransactionQueue(deps, { rpc, wallet, readResult })

  /** Reads who owns the configured agent, or else the one that this service registered. */
  async function checkIdentity(): Promise<void> {
    const row = queue && (await readTransaction(db, queue.account, 'register', subjects.register))
    const registered = row?.state === 'confirmed' ? row : undefined
    const agentId = config.trustAgentId ?? registered?.result
    const known = await readIdentity(db)
    const isKnown = known?.agent_id === agentId && known?.registry === registry
    const isStale = !isKnown || clock.now() - known.checked_at >= checkEveryMs
    if (agentId === undefined || agentId === null || !isStale) return
    if ((await rpc.chainId()) !== chainId)
      throw new RpcError('The RPC serves another chain than TRUST_CHAIN_ID.', 'wrong')
    const owner = wallet?.address ?? config.trustWallet
    const isOurs = owner !== undefined && (await isOwnAgent(rpc, registry, agentId, owner))
    await storeIdentity(db, {
      chain_id: chainId,
      registry,
      agent_id: agentId,
      status: isOurs ? 'live' : 'unverified',
      wallet: owner ?? null,
      register_tx_hash: registered?.result === agentId ? registered.tx_hash : null,
      checked_at: clock.now(),
    })
  }

  async function checkRevocations(): Promise<void> {
    if (!queue || !sink) return
    for (const row of await readUnchecked(db, queue.account, clock.now() - checkEveryMs, checkRows)) {
      const written = { uid: row.result!, hash: row.subject, txHash: row.tx_hash! }
      const state = await sink.state(rpc, written)
      await noteChecked(db, row.id, clock.now(), state === 'revoked')
    }
  }

  return {
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
