import type { Attestation } from '@wardline/contract'
import { knownEas, knownRegistries } from '../../config/known-chains.ts'
import { createEgress } from '../../egress/open-egress.ts'
import type { AttestationReader, WrittenState } from './attestation-sink.ts'
import { hashOf } from './documents.ts'
import { createEas } from './eas.ts'
import { createFeedbackReader } from './feedback-sink.ts'
import { Rpc, rpcDeadlineMs } from './rpc.ts'
import { createValidationRegistry, isSameResponse } from './validation-registry.ts'
import { createValidationReader } from './validation-sink.ts'
import { verificationTag } from './verification-report.ts'

interface Asked {
  rpcUrl: string
  /** Default: the known one of the chain. */
  eas: string | undefined
  attester: string
  /** Registry that the reader expects. When undefined, verifications and validations are not looked up. */
  validationRegistry: string | undefined
  /** Default: the known one of the chain. */
  reputationRegistry: string | undefined
  /** The agent that feedback is about. When undefined, feedback is not looked up. */
  agentId: string | undefined
}

type OnChain = NonNullable<Attestation['on_chain']>

/** Looks up on a node the attestations that others publish. Throws an error whose message is one sentence. */
export async function openPublished(asked: Asked) {
  const { rpcUrl, eas, attester, validationRegistry, agentId } = asked
  const egress = createEgress({ guarded: false, allow: [], deadlineMs: rpcDeadlineMs })
  const rpc = new Rpc(rpcUrl, egress)
  try {
    const chainId = await rpc.chainId()
    const address = eas ?? knownEas(chainId)?.[0]
    const validations = validationRegistry && createValidationRegistry(validationRegistry, attester)
    const readerOf = ({ sink }: OnChain): AttestationReader | undefined => {
      if (sink === 'validation')
        return validationRegistry === undefined ? undefined : createValidationReader(validationRegistry, attester)
      if (sink === 'feedback') {
        if (agentId === undefined) return undefined
        const registry = asked.reputationRegistry ?? knownRegistries(chainId)?.reputation
        if (registry === undefined)
          throw new Error(
            `The reputation registry of chain ${chainId} is not known: give it with --reputation-registry <address>.`,
          )
        return createFeedbackReader({ chainId, registry, agentId, wallet: attester })
      }
      if (address === undefined)
        throw new Error(`The address of EAS on chain ${chainId} is not known: give it with --eas <address>.`)
      return createEas(address, attester)
    }
    return {
      chainId,
      /** Undefined when the contract's address is unknown. */
      state: async (onChain: OnChain, hash: string): Promise<WrittenState | 'missing' | undefined> => {
        const { uid, tx_hash: txHash } = onChain
        const reader = readerOf(onChain)
        return reader && ((await reader.state(rpc, { uid, hash, txHash })) ?? 'missing')
      },
      /** Whether this report is the attester's latest response in the registry; undefined without a registry. */
      hasReport: async (requestHash: string, report: string, response: number) => {
        if (!validations) return undefined
        const found = await validations.answer(rpc, requestHash)
        const expected = { requestHash, response, responseHash: hashOf(report), tag: verificationTag }
        return found !== undefined && isSameResponse(found, expected)
      },
      close: () => egress.close(),
    }
  } catch (fault) {
    egress.close()
    throw fault
  }
}
