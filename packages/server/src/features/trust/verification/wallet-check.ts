import { open } from 'node:fs/promises'
import { type Rpc, RpcError } from '../../chain/rpc.ts'
import { notScored, type RiskFinding, type Score, scoreOf } from './score.ts'

/** Room for 300,000 addresses; the largest public lists have a third of that. */
const maxListBytes = 16 * 1024 * 1024
const setting = 'TRUST_BAD_ADDRESSES_FILE'

/** The list is unreadable or invalid. The message is one sentence. */
class ListError extends Error {
  override name = 'ListError'
}

/**
 * Whether the list contains the address. The file has one address per line, and comments after `#`. Throws ListError.
 */
export async function isListed(file: string, address: string): Promise<boolean> {
  const handle = await open(file).catch(({ code }) => {
    throw new ListError(`${setting}: ${file} cannot be read (${code}).`)
  })
  try {
    const { size } = await handle.stat()
    if (size > maxListBytes) throw new ListError(`${setting}: ${file} has more than ${maxListBytes} bytes: shorten it.`)
    let number = 0
    let isFound = false
    for await (const line of handle.readLines({ encoding: 'utf8', autoClose: false })) {
      number++
      const entry = line.replace(/#.*/, '').trim().toLowerCase()
      if (entry === '') continue
      if (!/^0x[0-9a-f]{40}$/.test(entry))
        throw new ListError(`${setting}: line ${number} of ${file} is not 0x and 40 hexadecimal digits.`)
      if (entry === address.toLowerCase()) isFound = true
    }
    return isFound
  } finally {
    await handle.close()
  }
}

/** An account that delegates to a contract (EIP-7702) still has its key. */
const delegated = /^0xef0100[0-9a-f]{40}$/i

interface Asked {
  address: string
  chainId: number
  rpc: Rpc
  badAddressesFile: string | undefined
}

/**
 * Wallet verification (WV): checks that the wallet has sent transactions, is not a contract and is on no list of bad
 * addresses.
 */
export async function checkWallet({ address, chainId, rpc, badAddressesFile }: Asked): Promise<Score> {
  try {
    const findings: RiskFinding[] = []
    if (badAddressesFile !== undefined && (await isListed(badAddressesFile, address)))
      findings.push({
        risk: 100,
        note: 'The wallet is on a list of bad addresses.',
        detail: `${address} is in ${badAddressesFile}.`,
      })
    const found = await rpc.chainId()
    if (found !== chainId)
      return notScored(
        'The wallet could not be checked.',
        `The RPC serves chain ${found}, TRUST_CHAIN_ID is ${chainId}.`,
      )
    const code = await rpc.code(address)
    if (code !== '0x' && !delegated.test(code))
      findings.push({
        risk: 60,
        note: 'The wallet is a contract.',
        detail: `${address} is a contract on chain ${chainId}: set TRUST_WALLET_ADDRESS to an account with a key.`,
      })
    else if ((await rpc.nonce(address)) === 0)
      findings.push({
        risk: 40,
        note: 'The wallet has no on-chain history.',
        detail: `${address} has sent no transaction on chain ${chainId}.`,
      })
    return scoreOf(findings, 'Wallet has on-chain history.')
  } catch (fault) {
    if (!(fault instanceof RpcError || fault instanceof ListError)) throw fault
    return notScored('The wallet could not be checked.', fault.message)
  }
}
