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
  readUnsettled,
  removeFailed,
  storeIdentity,
} from './chain-queries.ts'
import { readIdentity } from './chain-statements.ts'
import { Drops } from './drops.ts'
import { createEas, isSchemaRegistered, registerSchema, schemaText, schemaUid } from './eas.ts'
import { createFeedbackSink } from './feedback-sink.ts'
import { agentIdOf, isOwnAgent, registerAgent } from './identity-registry.ts'
import { easOf, identityRegistryOf, reputationRegistryOf, schemaRegistryOf } from './known-contracts.ts'
import { ether, type ReadResult, TransactionQueue } from './queue.ts'
import { agentUriOf, registrationOf } from './registration.ts'
import { reportChain } from './reports.ts'
import { type Log, Rpc, RpcError, rpcDeadlineMs } from './rpc.ts'
import { createValidationRegistry, isSameResponse, responseIn } from './validation-registry.ts'
import { createValidationSink } from './validation-sink.ts'
import {
  dataUriOf,
  hashOf,
  type PostedScores,
  responseOf,
  verificationTag,
  verificationTexts,
} from './verification-report.ts'

/** How often revocations and owners are read again. */
const checkEveryMs = hourMs
/** Attestations checked per turn; the summary shows twenty. */
const checkRows = 20
const subjects = { identity: 'identity', schema: schemaUid }

/**
 * Gas limit for a response. It cannot be estimated because the request is not on the chain yet, so this assumes a new
 * storage slot per word and the highest cost per byte of calldata (EIP-7623).
 */
const responseGas = (data: string) => 250_000 + 40 * (data.length / 2)

const unavailable = (what: string) =>
  new Error(`${what} is not known for this chain: set it to the address of the contract.`)

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
  const { db } = database
  const wallet = await openWallet(config)
  const egress = createEgress({ guarded: false, allow: [], deadlineMs: rpcDeadlineMs })
  const ending = new AbortController()
  const rpc = new Rpc(config.trustRpcUrl!, egress, ending.signal)
  const registry = identityRegistryOf(config)
  const sink = wallet && createSink(config, wallet.address)
  if (config.trustAttestOnChain && !sink) throw unavailable('TRUST_EAS_ADDRESS')

  const { trustValidationRegistry } = config
  const validation =
    trustValidationRegistry !== undefined && wallet
      ? createValidationRegistry(trustValidationRegistry, wallet.address)
      : undefined

  /** Requires the response in both the receipt's logs and the registry's state. */
  async function isAnswered(data: string, logs: readonly Log[]): Promise<boolean> {
    const response = responseIn(data)
    if (!response || !validation?.answered(logs).some((found) => isSameResponse(found, response))) return false
    const stored = await validation.answer(rpc, response.requestHash)
    return stored !== undefined && isSameResponse(stored, response)
  }

  const readResult: ReadResult = async (row, { hash: txHash, logs }) => {
    if (row.kind === 'register') return agentIdOf(logs, registry, row.sender)
    if (row.kind === 'validate' || row.kind === 'ask')
      return validation?.isRequested(logs, row.subject) ? row.subject : undefined
    if (row.kind === 'respond') return (await isAnswered(row.data, logs)) ? row.subject : undefined
    if (row.kind !== 'attest') return row.subject
    const uid = sink?.uidOf(logs, row.subject)
    // The receipt and the contract's state are separate responses of the node, and both must agree.
    return uid !== undefined && (await sink!.state(rpc, { uid, hash: row.subject, txHash })) ? uid : undefined
  }
  const queue = wallet && new TransactionQueue(deps, { rpc, wallet, readResult })
  let checkedAt = -Infinity

  const needQueue = () => {
    if (!queue || !wallet)
      throw new Error('TRUST_WALLET_KEY_FILE is not set: set it to the key that pays for transactions.')
    return { queue, wallet }
  }

  async function readOwnership(agentId: string, registerTxHash: string | null): Promise<void> {
    const address = wallet?.address ?? config.trustWallet
    const isOurs = address !== undefined && (await isOwnAgent(rpc, registry, agentId, address))
    await storeIdentity(db, {
      chain_id: config.trustChainId,
      registry,
      agent_id: agentId,
      status: isOurs ? 'live' : 'unverified',
      wallet: address ?? null,
      register_tx_hash: registerTxHash,
      checked_at: clock.now(),
    })
  }

  /** Checks the configured agent, or else the one that this service registered. */
  async function checkIdentity(): Promise<void> {
    const row = queue && (await readTransaction(db, queue.account, 'register', subjects.identity))
    const registered = row?.state === 'confirmed' ? row : undefined
    const agentId = config.trustAgentId ?? registered?.result
    const known = await readIdentity(db)
    const isKnown = known?.agent_id === agentId && known?.registry === registry
    const isStale = !isKnown || clock.now() - known.checked_at >= checkEveryMs
    if (agentId === undefined || agentId === null || !isStale) return
    if ((await rpc.chainId()) !== config.trustChainId)
      throw new RpcError('The RPC serves another chain than TRUST_CHAIN_ID.', 'wrong')
    const isRegisteredHere = registered?.result === agentId
    await readOwnership(agentId, isRegisteredHere ? registered.tx_hash : null)
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
        const ask = before ? [{ kind: 'ask' as const, ...before }] : []
        await queue.add(...ask, { kind: 'attest', subject: record.hash, ...sink.write(record) })
      }
    },

    /** Returns the transaction that would register the identity, or the existing registration as `done`. */
    async planRegistration() {
      const { queue, wallet } = needQueue()
      const done = await readTransaction(db, queue.account, 'register', subjects.identity)
      if (done && done.state !== 'failed') return { done }
      const uri = agentUriOf(config)
      const call = registerAgent(registry, uri)
      const { gas, fees, cost } = await queue.quote(call)
      const send = async () => {
        if (done) await removeFailed(database, done)
        await queue.add({ kind: 'register', subject: subjects.identity, ...call })
      }
      const file = registrationOf(config, undefined)
      return { plan: { from: wallet.address, to: registry, uri, file, gas, maxFee: fees.max, cost: ether(cost) }, send }
    },

    /** Returns the transaction that would register the schema. */
    async planSchema() {
      const { queue, wallet } = needQueue()
      const schemaRegistry = schemaRegistryOf(config)
      if (schemaRegistry === undefined) throw unavailable('TRUST_EAS_SCHEMA_REGISTRY')
      await queue.assertChain()
      if (await isSchemaRegistered(rpc, schemaRegistry)) return { isRegistered: true } as const
      const done = await readTransaction(db, queue.account, 'schema', subjects.schema)
      if (done && done.state !== 'failed') return { done }
      const call = registerSchema(schemaRegistry)
      const { gas, fees, cost } = await queue.quote(call)
      const send = async () => {
        if (done) await removeFailed(database, done)
        await queue.add({ kind: 'schema', subject: subjects.schema, ...call })
      }
      const plan = { from: wallet.address, to: schemaRegistry, schema: schemaText, gas, maxFee: fees.max }
      return { plan: { ...plan, cost: ether(cost) }, send }
    },

    /** Returns the verification being posted, if any. Its request and response are sent one after the other. */
    async openVerification(): Promise<string | undefined> {
      return (await readUnsettled(db, needQueue().queue.account, ['validate', 'respond']))?.subject
    },

    /** Returns the transactions that would post these scores to the validation registry. */
    async planVerification(scores: PostedScores) {
      const { queue, wallet } = needQueue()
      if (!validation)
        throw new Error('TRUST_VALIDATION_REGISTRY is not set: set it to the registry that the scores are posted to.')
      const known = await readIdentity(db)
      const isCurrent = known?.chain_id === config.trustChainId && known.registry === registry
      const agentId = config.trustAgentId ?? (isCurrent ? known.agent_id : undefined)
      if (agentId === undefined)
        throw new Error('There is no identity to verify: run `wardline chain register`, or set TRUST_AGENT_ID.')
      const agentRegistry = `eip155:${config.trustChainId}:${registry}`
      const { request, requestHash, report } = verificationTexts(agentRegistry, agentId, scores)
      const response = responseOf(scores.unified_score)
      const answer = { requestHash, response, responseHash: hashOf(report), tag: verificationTag }
      const calls = [
        { kind: 'validate', subject: requestHash, ...validation.request(agentId, dataUriOf(request), requestHash) },
        { kind: 'respond', subject: requestHash, ...validation.respond(answer, dataUriOf(report)) },
      ] as const
      const { gas, fees } = await queue.quote(calls[0])
      // An address without code accepts every transaction and logs nothing, so the posting would never be confirmed.
      if ((await rpc.code(calls[0].target)) === '0x')
        throw new Error(`TRUST_VALIDATION_REGISTRY: no contract at ${calls[0].target} on chain ${config.trustChainId}.`)
      const whole = gas + responseGas(calls[1].data)
      const plan = { from: wallet.address, to: calls[0].target, gas: whole, maxFee: fees.max }
      const cost = ether(BigInt(whole) * fees.max)
      return { plan: { ...plan, cost, request, report, response }, requestHash, send: () => queue.addAlone(calls) }
    },

    /**
     * Queues the revocation of an attestation. Returns false when this service has not made an attestation with this
     * uid.
     */
    async revoke(uid: string): Promise<boolean> {
      const { queue } = needQueue()
      const made = (await readTransactions(db, 1_000)).find(({ kind, result }) => kind === 'attest' && result === uid)
      if (!made || !sink) return false
      await queue.add({ kind: 'revoke', subject: uid, ...sink.revoke({ uid, hash: made.subject }) })
      return true
    },

    transaction: (kind: 'register' | 'schema' | 'revoke' | 'validate' | 'respond', subject?: string) =>
      readTransaction(db, needQueue().queue.account, kind, subject ?? (kind === 'schema' ? schemaUid : 'identity')),

    async status() {
      const balance = wallet && (await rpc.balance(wallet.address))
      return {
        chainId: config.trustChainId,
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
