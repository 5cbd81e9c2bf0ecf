import { createEgress } from '../../egress/open-egress.ts'
import { createEas } from './eas.ts'
import { knownEas } from './known-contracts.ts'
import { Rpc, rpcDeadlineMs } from './rpc.ts'

interface Asked {
  rpcUrl: string
  /** Default: the known one of the chain. */
  eas: string | undefined
  attester: string
}

/** What a node says of attestations that others publish. Throws a sentence. */
export async function openPublished({ rpcUrl, eas, attester }: Asked) {
  const egress = createEgress({ guarded: false, allow: [], deadlineMs: rpcDeadlineMs })
  const rpc = new Rpc(rpcUrl, egress)
  try {
    const chainId = await rpc.chainId()
    const address = eas ?? knownEas(chainId)
    if (address === undefined)
      throw new Error(`The address of EAS on chain ${chainId} is not known: give it with --eas <address>.`)
    const sink = createEas(address, attester)
    return {
      chainId,
      state: (uid: string, hash: string) => sink.state(rpc, uid, hash),
      close: () => egress.close(),
    }
  } catch (fault) {
    egress.close()
    throw fault
  }
}
