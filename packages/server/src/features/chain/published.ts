import { createEgress } from '../../egress/open-egress.ts'
import { createEas } from './eas.ts'
import { knownEas } from './known-contracts.ts'
import { Rpc, rpcDeadlineMs } from './rpc.ts'
import { createValidationRegistry, isSameResponse } from './validation-registry.ts'
import { hashOf, verificationTag } from './verification-report.ts'

interface Asked {
  rpcUrl: string
  /** Default: the known one of the chain. */
  eas: string | undefined
  attester: string
  /** The one that the reader expects; verifications are not looked up without. */
  validationRegistry: string | undefined
}

/** What a node says of attestations that others publish. Throws a sentence. */
export async function openPublished({ rpcUrl, eas, attester, validationRegistry }: Asked) {
  const egress = createEgress({ guarded: false, allow: [], deadlineMs: rpcDeadlineMs })
  const rpc = new Rpc(rpcUrl, egress)
  try {
    const chainId = await rpc.chainId()
    const address = eas ?? knownEas(chainId)
    const validations = validationRegistry && createValidationRegistry(validationRegistry, attester)
    return {
      chainId,
      state: async (uid: string, hash: string) => {
        if (address === undefined)
          throw new Error(`The address of EAS on chain ${chainId} is not known: give it with --eas <address>.`)
        return createEas(address, attester).state(rpc, { uid, hash, txHash: '' })
      },
      /** Whether the registry has this report as the last answer of the wallet; undefined without a registry. */
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
