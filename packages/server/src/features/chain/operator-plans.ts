import type { PrivateKeyAccount } from 'viem/accounts'
import type { Deps } from '../../deps.ts'
import type { AttestationSink } from './attestation-sink.ts'
import { readTransaction, readTransactions, readUnsettled, removeFailed } from './chain-queries.ts'
import { readIdentity } from './chain-statements.ts'
import { assertContract } from './contract-check.ts'
import { isSchemaRegistered, registerSchema, schemaText, schemaUid } from './eas.ts'
import { countAgents, registerAgent } from './identity-registry.ts'
import { schemaRegistryOf, unavailable } from './known-contracts.ts'
import { ether, type TransactionQueue } from './queue.ts'
import { agentUriOf, registrationOf } from './registration.ts'
import type { Rpc } from './rpc.ts'
import type { ValidationRegistry } from './validation-registry.ts'
import {
  dataUriOf,
  hashOf,
  type PostedScores,
  responseOf,
  verificationTag,
  verificationTexts,
} from './verification-report.ts'

/** Subject of a transaction that is sent once. */
export const subjects = { register: 'identity', schema: schemaUid }

/**
 * Gas limit for a response. It cannot be estimated because the request is not on the chain yet, so this assumes a new
 * storage slot per word and the highest cost per byte of calldata (EIP-7623).
 */
const responseGas = (data: string) => 250_000 + 40 * (data.length / 2)

interface PlanParts {
  rpc: Rpc
  /** Undefined without a wallet. */
  queue: TransactionQueue | undefined
  wallet: PrivateKeyAccount | undefined
  registry: string
  sink: AttestationSink | undefined
  validation: ValidationRegistry | undefined
}

/** Plans the transactions that operators send by the command line: what they would do and cost, and a function that queues them. */
export function createOperatorPlans(deps: Deps, { rpc, queue, wallet, registry, sink, validation }: PlanParts) {
  const { config, database } = deps
  const { db } = database

  const needQueue = () => {
    if (!queue || !wallet)
      throw new Error('TRUST_WALLET_KEY_FILE is not set: set it to the key that pays for transactions.')
    return { queue, wallet }
  }

  /** Plans a call that is sent once, and again only if it failed; an existing transaction is `done`. */
  async function planOnce<Shown>(kind: keyof typeof subjects, call: { target: string; data: string }, shown: Shown) {
    const { queue, wallet } = needQueue()
    const done = await readTransaction(db, queue.account, kind, subjects[kind])
    if (done && done.state !== 'failed') return { done }
    const { gas, fees, cost } = await queue.quote(call)
    const send = async () => {
      if (done) await removeFailed(database, done)
      await queue.add({ kind, subject: subjects[kind], ...call })
    }
    const plan = { from: wallet.address, to: call.target, ...shown, gas, maxFee: fees.max, cost: ether(cost) }
    return { plan, send }
  }

  return {
    /** Returns the transaction that would register the identity, or the existing registration as `done`. */
    async planRegistration() {
      const uri = agentUriOf(config)
      const { queue, wallet } = needQueue()
      const call = registerAgent(registry, uri)
      await queue.assertChain()
      await assertContract(rpc, call)
      const made = await readTransaction(db, queue.account, 'register', subjects.register)
      // A node that denied an earlier registration must not lead to a second one.
      const owned = made && made.state !== 'failed' ? 0n : await countAgents(rpc, registry, wallet.address)
      if (owned > 0n)
        throw new Error(
          `${wallet.address} owns ${owned} in this registry already: set TRUST_AGENT_ID to the one that this service is.`,
        )
      return planOnce('register', call, { uri, file: registrationOf(config, undefined) })
    },

    /** Returns the transaction that would register the schema. */
    async planSchema() {
      const schemaRegistry = schemaRegistryOf(config)
      if (schemaRegistry === undefined) throw unavailable('TRUST_EAS_SCHEMA_REGISTRY')
      await needQueue().queue.assertChain()
      await assertContract(rpc, registerSchema(schemaRegistry))
      if (await isSchemaRegistered(rpc, schemaRegistry)) return { isRegistered: true, plan: undefined, send: undefined }
      return {
        isRegistered: false,
        ...(await planOnce('schema', registerSchema(schemaRegistry), { schema: schemaText })),
      }
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
      readTransaction(
        db,
        needQueue().queue.account,
        kind,
        subject ?? (kind === 'schema' ? subjects.schema : subjects.register),
      ),
  }
}
