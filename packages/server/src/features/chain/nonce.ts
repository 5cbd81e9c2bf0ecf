interface Counts {
  /** Transactions of the wallet in blocks, as the node counts them. */
  counted: number
  /** The same, with those that wait for a block. */
  waiting: number
  /** Nonces that this service has used; 0 before its first transaction. */
  used: number
  /** TRUST_WALLET_NONCE: the operator's own count. */
  vouched: number | undefined
}

/**
 * Returns why the node's count must not become the nonce of the next transaction; undefined if it may. A transaction
 * with a nonce that is too high never gets into a block and blocks the ones after it. Only for a wallet of which this
 * service has sent nothing there is nothing to compare with but the operator's count.
 */
export function nonceFault({
  counted,
  waiting,
  used,
  vouched,
}: Counts): { isJump: boolean; message: string } | undefined {
  const expected = Math.max(used, vouched ?? (used === 0 ? counted : 0))
  if (counted < expected)
    return {
      isJump: false,
      message: `The RPC is behind: it knows ${counted} transactions of the wallet, ${expected} are done.`,
    }
  const known = Math.max(counted, waiting)
  if (known === expected) return undefined
  return {
    isJump: true,
    message: `The RPC counts ${known} transactions of the wallet, and ${expected} are known: check with another node; if it agrees, another program uses the wallet: stop it, and set TRUST_WALLET_NONCE to ${known}.`,
  }
}
