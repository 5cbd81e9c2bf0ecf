import { open } from 'node:fs/promises'
import type { Rpc } from '../../chain/rpc.ts'
import { notScored, type Score, scoreOf } from './score.ts'

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
    let [isFound, hasEntries] = [false, false]
    for await (const line of handle.readLines({ encoding: 'utf8', autoClose: false })) {
      number++
      const entry = line.replace(/#.*/, '').trim().toLowerCase()
      if (entry === '') continue
      if (!/^0x[0-9a-f]{40}$/.test(entry))
        throw new ListError(`${setting}: line ${number} of ${file} is not 0x and 40 hexadecimal digits.`)
      hasEntries = true
      if (entry === address.toLowerCase()) isFound = true
    }
    if (!hasEntries) throw new ListError(`${setting}: ${file} has no address: fill it, or nothing was compared.`)
    return isFound
  } finally {
    await handle.close()
  }
}

/** An account that delegates to a contract (EIP-7702) still has its key. */
const delegated = /^0xef0100[0-9a-f]{40}$/i

interface Asked {
  /** The wallet of the agent. */
  address: string
  rpc: Rpc
  badAddressesFile: string | undefined
}

const histories = {
  some: 'Wallet has on-chain history.',
  none: 'The wallet has no on-chain history.',
  // A contract sends what others ask it to; its nonce counts the contracts that it made.
  unknown: 'The wallet is a contract, whose history was not checked.',
}

async function historyOf(rpc: Rpc, address: string): Promise<keyof typeof histories> {
  const code = await rpc.code(address)
  if (code !== '0x' && !delegated.test(code)) return 'unknown'
  return (await rpc.nonce(address)) === 0 ? 'none' : 'some'
}

/**
 * Wallet verification (WV): whether the wallet has sent transactions and is on no list of bad addresses. There is no
 * score without both, except 100 for a listed wallet, to which nothing can add. Throws RpcError.
 */
export async function checkWallet({ address, rpc, badAddressesFile }: Asked): Promise<Score> {
  if (/^0x0+$/.test(address))
    return notScored('InvalidAddress', 'The agent has no wallet.', 'The registry names neither a wallet nor an owner.')
  let isUnlisted = false
  let listFault = `${setting} is not set: set it to a list of addresses that are known as bad.`
  if (badAddressesFile !== undefined) {
    try {
      if (await isListed(badAddressesFile, address)) {
        const note = 'The wallet is on a list of bad addresses.'
        return scoreOf([{ risk: 100, note, detail: `${address} is in ${badAddressesFile}.` }], '')
      }
      isUnlisted = true
    } catch (fault) {
      if (!(fault instanceof ListError)) throw fault
      listFault = fault.message
    }
  }
  const history = await historyOf(rpc, address)
  const note = histories[history]
  if (!isUnlisted)
    return notScored('VerificationFailed', `Not compared with a list of bad addresses. ${note}`, listFault)
  if (history === 'unknown')
    return notScored(
      'VerificationFailed',
      `${note} It is on no list of bad addresses.`,
      `${address} is a contract: only the history of an account with a key can be read, by the transactions that it sent.`,
    )
  return scoreOf(history === 'none' ? [{ risk: 40, note, detail: `${address} has sent no transaction.` }] : [], note)
}
