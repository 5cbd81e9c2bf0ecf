import { Type } from '@wardline/contract'
import type { Hex, TransactionSerializableEIP1559 } from 'viem'
import {
  getAddress,
  keccak256,
  numberToHex,
  parseTransaction,
  recoverAddress,
  recoverTypedDataAddress,
  serializeTransaction,
  serializeTypedData,
} from 'viem/utils'
import type { Egress } from '../../egress/egress.ts'
import { faultFinder } from '../../validation.ts'
import type { Signer } from '../../wallet.ts'
import { Bytes, isSameHex, JsonRpc, RpcError } from './rpc.ts'

/** The signed bytes, which geth and Clef put into an object together with the fields. */
const signedFault = faultFinder(Type.Union([Bytes, Type.Object({ raw: Bytes })]))
/** 65 bytes. Some signers write the last one as 0 or 1. */
const signatureFault = faultFinder(Type.String({ pattern: '^0x[0-9a-fA-F]{128}(0[01]|1[bBcC])$' }))

/** Half of the order of secp256k1. Nodes and EAS accept only the lower of the two possible values of s (EIP-2). */
const highestS = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n

/** Fields that a signer could have changed, by what `parseTransaction` names them. */
const fields = ['chainId', 'nonce', 'gas', 'maxFeePerGas', 'maxPriorityFeePerGas', 'to', 'data', 'value'] as const

type Transaction = TransactionSerializableEIP1559

const wrong = (sentence: string) => new RpcError(sentence, 'wrong')

/** Fields that a transaction leaves out are zero or empty. */
const shown = (value: unknown) => String(value ?? '0').toLowerCase()
const fieldOf = (transaction: Transaction, name: (typeof fields)[number]) =>
  name === 'data' ? shown(transaction.data ?? '0x') : shown(transaction[name])

/** Returns the bytes if they are this transaction with a signature of this address, and nothing else. Throws RpcError. */
async function verifiedTransaction(raw: Hex, asked: Transaction, address: string): Promise<Hex> {
  let signed: ReturnType<typeof parseTransaction>
  try {
    signed = parseTransaction(raw)
  } catch {
    throw wrong('The signer answered eth_signTransaction with bytes that are no transaction.')
  }
  if (signed.type !== 'eip1559') throw wrong(`The signer signed a transaction of type ${signed.type}, not of eip1559.`)
  const changed = fields.filter((name) => fieldOf(signed as Transaction, name) !== fieldOf(asked, name))
  if (changed.length > 0) throw wrong(`The signer signed another transaction: it changed ${changed.join(', ')}.`)
  const { r, s, yParity } = signed
  if (r === undefined || s === undefined || yParity === undefined)
    throw wrong('The signer answered eth_signTransaction with a transaction without a signature.')
  if (BigInt(s) > highestS) throw wrong('The signer answered with a signature whose s is not the lower one.')
  // Written again, the transaction must be the same bytes: nothing was added, such as an access list.
  if (!isSameHex(raw, serializeTransaction(asked, { r, s, yParity })))
    throw wrong('The signer signed another transaction: it added something, such as an access list.')
  const hash = keccak256(serializeTransaction(asked))
  const signer = await recoverAddress({ hash, signature: { r, s, yParity } }).catch(() => undefined)
  if (!isSameHex(signer, address)) throw wrong(`The signer signed a transaction, but not as ${address}.`)
  return raw
}

/**
 * Signer that keeps the key elsewhere, such as Web3Signer or a proxy of a key management service. What it answers is not
 * trusted. Its methods throw RpcError, whose message does not contain the URL.
 */
export function createExternalSigner(parts: {
  url: string
  address: string
  egress: Egress
  end: AbortSignal | undefined
}): Signer {
  // Transactions are stored under the address, so it must be spelled as with a key file.
  const address = getAddress(parts.address)
  const service = new JsonRpc({ ...parts, name: 'The signer' })

  async function askForSignature(params: [string, string]): Promise<Hex> {
    const ask = (method: string) => service.ask(method, params, signatureFault) as Promise<Hex>
    try {
      return await ask('eth_signTypedData_v4')
    } catch (fault) {
      if (!(fault instanceof RpcError) || fault.kind === 'unavailable' || fault.kind === 'wrong') throw fault
      // Web3Signer has the method by this name only. It passes others on to a node, so that its error can be any.
      return await ask('eth_signTypedData').catch((other) => {
        throw other instanceof RpcError ? new RpcError(`${fault.message}; ${other.message}`, other.kind) : other
      })
    }
  }

  return {
    address,

    async signTransaction(transaction) {
      const { chainId, nonce, gas, maxFeePerGas, maxPriorityFeePerGas, to, data, value } = transaction
      const asked = {
        from: address,
        to,
        data,
        type: '0x2',
        chainId: numberToHex(chainId),
        nonce: numberToHex(nonce!),
        gas: numberToHex(gas!),
        maxFeePerGas: numberToHex(maxFeePerGas!),
        maxPriorityFeePerGas: numberToHex(maxPriorityFeePerGas!),
        value: numberToHex(value!),
      }
      const answer = (await service.ask('eth_signTransaction', [asked], signedFault).catch((fault) => {
        // Rules of signers allow some contracts and methods: others of the wallet's transactions may be among them.
        const isRefused = fault instanceof RpcError && (fault.kind === 'refused' || fault.kind === 'revert')
        throw isRefused ? new RpcError(fault.message, 'unsigned') : fault
      })) as Hex | { raw: Hex }
      return verifiedTransaction(typeof answer === 'string' ? answer : answer.raw, transaction, address)
    },

    async signTypedData(data) {
      const answer = await askForSignature([address, serializeTypedData(data)])
      const parity = Number(`0x${answer.slice(130)}`) % 27
      if (BigInt(`0x${answer.slice(66, 130)}`) > highestS)
        throw wrong('The signer answered with a signature whose s is not the lower one.')
      const signature: Hex = `0x${answer.slice(2, 130)}${(27 + parity).toString(16)}`
      const signer = await recoverTypedDataAddress({ ...data, signature }).catch(() => undefined)
      if (!isSameHex(signer, address)) throw wrong(`The signer signed typed data, but not as ${address}.`)
      return signature
    },
  }
}
