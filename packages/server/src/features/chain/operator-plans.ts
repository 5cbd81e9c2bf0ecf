import type { Deps } from '../../deps.ts'
import { uuidV7 } from '../../ids.ts'
import type { Signer } from '../../wallet.ts'
import type { AttestationSink } from './attestation-sink.ts'
import {
  raiseMaxCost,
  readTransaction,
  readTransactions,
  readUnsettled,
  removeFailed,
  type TransactionRow,
} from './chain-queries.ts'
import { assertContract, targetOf } from './contract-check.ts'
import { dataUriOf } from './data-uri.ts'
import { hashOf } from './documents.ts'
import { isSchemaRegistered, registerSchema, schemaText, schemaUid } from './eas.ts'
import { ether } from './fees.ts'
import { countAgents, readAgentUri, readOwner, registerAgent, setAgentUri } from './identity-registry.ts'
import { schemaRegistryOf, unavailable } from './known-contracts.ts'
import { readKnownIdentity } from './known-identity.ts'
import type { TransactionQueue } from './queue.ts'
import { agentUriOf, registrationOf } from './registration.ts'
import { type Rpc, RpcError } from './rpc.ts'
import type { ValidationRegistry } from './validation-registry.ts'
import {
  assertPostable,
  responseOf,
  type VerifiedAgent,
  verificationTag,
  verificationTexts,
} from './verification-report.ts'

/** Subjects of transactions that are sent once for each chain and wallet. */
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
  wallet: Signer | undefined
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
      throw new Error(
        'No wallet is configured: set TRUST_WALLET_KEY_FILE to the key that pays for transactions, or TRUST_SIGNER_URL.',
      )
    return { queue, wallet }
  }

  /** Plans to confirm the higher cost that the first of these transactions waits for; undefined while it needs none. */
  async function planHigherCost(rows: readonly TransactionRow[]) {
    const { queue, wallet } = needQueue()
    const unsettled = rows.filter(({ state }) => state === 'pending' || state === 'sent')
    const [first, ...behind] = unsettled
    const higher = first && (await queue.offers.higherCost(first))
    if (!higher) return undefined
    const raised = [{ row: first, gas: higher.gas, cost: higher.cost }]
    for (const row of behind) {
      const { cost = BigInt(row.max_cost!), gas = responseGas(row.data) } =
        (await queue.offers.higherCost(row, responseGas(row.data))) ?? {}
      raised.push({ row, gas, cost })
    }
    const sum = (costs: bigint[]) => ether(costs.reduce((one, other) => one + other))
    const plan = {
      from: wallet.address,
      to: first.state === 'pending' ? targetOf(config, first) : first.target,
      gas: raised.reduce((all, { gas }) => all + gas, 0),
      maxFee: higher.fees.max,
      cost: sum(raised.map(({ cost }) => cost)),
      confirmed: sum(raised.map(({ row }) => BigInt(row.max_cost!))),
    }
    const confirm = async () => {
      for (const { row, cost } of raised) await raiseMaxCost(database, queue.account, row, cost)
    }
    return { plan, confirm }
  }

  /** Returns the unsettled transactions of these kinds, which are sent one at a time, by their subject. */
  async function openOf(kinds: TransactionRow['kind'][]) {
    const rows = await readUnsettled(db, needQueue().queue.account, kinds)
    return rows[0] && { subject: rows[0].subject, higher: await planHigherCost(rows) }
  }

  /**
   * Plans a call that is sent once, and again only if it failed. An existing transaction is `done`; `higher` confirms the
   * cost that it waits for.
   */
  async function planOnce<Shown>(
    { kind, subject }: Pick<TransactionRow, 'kind' | 'subject'>,
    call: { target: string; data: string },
    shown: Shown,
  ) {
    const { queue, wallet } = needQueue()
    const done = await readTransaction(db, queue.account, kind, subject)
    if (done && done.state !== 'failed') return { done, higher: await planHigherCost([done]) }
    const { gas, fees, cost } = await queue.offers.quote(call)
    const send = async () => {
      if (done) await removeFailed(database, done)
      await queue.add({ kind, subject, ...call, max_cost: String(cost) })
    }
    const plan = { from: wallet.address, to: call.target, ...shown, gas, maxFee: fees.max, cost: ether(cost) }
    return { plan, send }
  }

  return {
    /** Returns the transaction that would register the identity, or the existing registration as `done`. */
    async planRegistration() {
      const uri = agentUriOf(config, undefined)
      const { wallet } = needQueue()
      const shown = { uri, file: registrationOf(config, undefined) }
      const once = { kind: 'register', subject: subjects.register } as const
      const planned = await planOnce(once, registerAgent(registry, uri), shown)
      // A node that denied an earlier registration must not lead to a second one.
      const owned = planned.done ? 0n : await countAgents(rpc, registry, wallet.address)
      if (owned > 0n)
        throw new Error(
          `${wallet.address} owns ${owned} in this registry already: set TRUST_AGENT_ID to the one that this service is.`,
        )
      return planned
    },

    /** Returns the transaction that would register the schema. */
    async planSchema() {
      const schemaRegistry = schemaRegistryOf(config)
      if (schemaRegistry === undefined) throw unavailable('TRUST_EAS_SCHEMA_REGISTRY')
      needQueue()
      await rpc.assertChain(config.trustChainId)
      await assertContract(rpc, registerSchema(schemaRegistry))
      if (await isSchemaRegistered(rpc, schemaRegistry))
        return { isRegistered: true, plan: undefined, send: undefined, higher: undefined }
      return {
        isRegistered: false,
        ...(await planOnce({ kind: 'schema', subject: subjects.schema }, registerSchema(schemaRegistry), {
          schema: schemaText,
        })),
      }
    },

    /** Returns the unsettled change of the URI, if any. */
    openUri: () => openOf(['set-uri']),

    /** Returns the transaction that would change the URI of the identity to what the configuration gives. */
    async planUri() {
      const { queue, wallet } = needQueue()
      const agentId = config.trustAgentId ?? (await readKnownIdentity(deps))?.agent_id
      if (agentId === undefined)
        throw new Error('There is no identity to change: run `wardline chain register`, or set TRUST_AGENT_ID.')
      const uri = agentUriOf(config, agentId)
      const call = setAgentUri(registry, agentId, uri)
      const { gas, fees, cost } = await queue.offers.quote(call).catch(async (fault) => {
        if (!(fault instanceof RpcError) || fault.kind !== 'revert') throw fault
        const owner = await readOwner(rpc, registry, agentId)
        if (owner === undefined) throw new Error(`The registry has no agent ${agentId}: correct TRUST_AGENT_ID.`)
        throw new Error(
          `${wallet.address} must not change agent ${agentId}, which belongs to ${owner}: use the wallet of its owner, or let that approve this one. ${fault.message}`,
        )
      })
      const before = await readAgentUri(rpc, registry, agentId)
      if (before === uri)
        throw new Error(`Agent ${agentId} has the URI that the configuration gives: there is nothing to change.`)
      // Unique, because the URI may change any number of times, also back.
      const subject = uuidV7(deps.clock.now())
      const row = { kind: 'set-uri', subject, ...call, max_cost: String(cost) } as const
      const shown = { agentId, before, uri, file: registrationOf(config, agentId) }
      const plan = { from: wallet.address, to: call.target, ...shown, gas, maxFee: fees.max, cost: ether(cost) }
      return { plan, subject, send: () => queue.addAlone([row]) }
    },

    /** Returns the verification being posted, if any. Its request and response are sent one after the other. */
    openVerification: () => openOf(['validate', 'respond']),

    /**
     * Returns the transactions that would post these scores to the validation registry. Each has the limit of its part of
     * the shown cost: what the request does not use is not added to the response.
     */
    async planVerification(scores: VerifiedAgent) {
      const { queue, wallet } = needQueue()
      if (!validation)
        throw new Error('TRUST_VALIDATION_REGISTRY is not set: set it to the registry that the scores are posted to.')
      assertPostable(scores)
      const { request, requestHash, report } = verificationTexts(scores)
      const response = responseOf(scores.unified_score)
      const answer = {
        ...{ requestHash, response, responseHash: hashOf(report), tag: verificationTag },
        uri: dataUriOf(report),
      }
      const calls = [
        {
          kind: 'validate',
          subject: requestHash,
          ...validation.request(scores.agent_id, dataUriOf(request), requestHash),
        },
        { kind: 'respond', subject: requestHash, ...validation.respond(answer) },
      ] as const
      const { gas, fees } = await queue.offers.quote(calls[0])
      const parts = [gas, responseGas(calls[1].data)] as const
      const costs = parts.map((part) => BigInt(part) * fees.max)
      const plan = { from: wallet.address, to: calls[0].target, gas: parts[0] + parts[1], maxFee: fees.max }
      const cost = ether(costs[0]! + costs[1]!)
      const rows = calls.map((call, place) => ({ ...call, max_cost: String(costs[place]) }))
      return { plan: { ...plan, cost, request, report, response }, requestHash, send: () => queue.addAlone(rows) }
    },

    /**
     * Returns the transaction that would revoke an attestation; undefined when this service has not made an attestation
     * with this uid.
     */
    async planRevocation(uid: string) {
      needQueue()
      const made = (await readTransactions(db, 1_000)).find(({ kind, result }) => kind === 'attest' && result === uid)
      if (!made || !sink) return undefined
      return planOnce({ kind: 'revoke', subject: uid }, sink.revoke(uid), {
        hash: made.subject,
      })
    },

    /** Returns why a transaction waits for a higher cost to be confirmed; undefined while it does not. */
    async waitsForCost(row: TransactionRow): Promise<string | undefined> {
      if (row.state !== 'pending' && row.state !== 'sent') return undefined
      try {
        return (await needQueue().queue.offers.higherCost(row))?.fault.message
      } catch (fault) {
        // The queue meets the same error, and keeps it.
        if (fault instanceof RpcError) return undefined
        throw fault
      }
    },

    transaction: (kind: 'register' | 'schema' | 'revoke' | 'validate' | 'respond' | 'set-uri', subject?: string) =>
      readTransaction(
        db,
        needQueue().queue.account,
        kind,
        subject ?? (kind === 'schema' ? subjects.schema : subjects.register),
      ),
  }
}
