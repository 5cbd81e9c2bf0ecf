import { createDecipheriv, pbkdf2, scrypt } from 'node:crypto'
import { promisify } from 'node:util'
import type { Hex, TransactionSerializableEIP1559, TypedDataDefinition } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { keccak256 } from 'viem/utils'
import { type Config, ConfigError } from './config/config.ts'
import { readPrivateFile } from './private-files.ts'
import type { Secrets } from './secrets.ts'

const setting = 'TRUST_WALLET_KEY_FILE'

/** What signs for an address: a key of this service, or a service that keeps the key. */
export interface Signer {
  readonly address: string
  signTransaction(transaction: TransactionSerializableEIP1559): Promise<Hex>
  /** Takes the type of the domain among the types. Resolves with 65 bytes: r, s in the lower half, and 27 or 28. */
  signTypedData(data: TypedDataDefinition): Promise<Hex>
}

/** Limits of a keystore's cost. geth uses n = 262,144 and r = 8, which briefly take 256 MiB. */
const maxScryptBytes = 1024 ** 3
const maxRounds = 10_000_000

interface Keystore {
  version: 3
  crypto: {
    cipher: string
    ciphertext: string
    cipherparams: { iv: string }
    kdf: string
    kdfparams: { salt: string; dklen: number; n?: number; r?: number; p?: number; c?: number; prf?: string }
    mac: string
  }
}

const refuse = (rule: string): never => {
  throw new ConfigError([`${setting}: ${rule}.`])
}

async function deriveKey({ kdf, kdfparams }: Keystore['crypto'], passphrase: string): Promise<Buffer> {
  const { salt, dklen, n = 0, r = 0, p = 0, c = 0, prf } = kdfparams
  const bytes = Buffer.from(salt, 'hex')
  if (dklen !== 32) return refuse('the keystore must have a dklen of 32')
  if (kdf === 'scrypt') {
    if (!(128 * n * r <= maxScryptBytes && p >= 1 && p <= 16))
      return refuse('the keystore costs more than 1 GiB of memory')
    return promisify<string, Buffer, number, object, Buffer>(scrypt)(passphrase, bytes, dklen, {
      N: n,
      r,
      p,
      maxmem: 128 * n * r + 64 * 1024 ** 2,
    })
  }
  if (kdf !== 'pbkdf2' || prf !== 'hmac-sha256' || !(c >= 1 && c <= maxRounds))
    return refuse('the keystore must use scrypt, or pbkdf2 with hmac-sha256')
  return promisify(pbkdf2)(passphrase, bytes, c, dklen, 'sha256')
}

async function decrypt(text: string, passphrase: string): Promise<string> {
  try {
    const { version, crypto } = JSON.parse(text) as Keystore
    if (version !== 3 || crypto.cipher !== 'aes-128-ctr')
      return refuse('the keystore must be of version 3 with aes-128-ctr')
    const key = await deriveKey(crypto, passphrase)
    const sealed = Buffer.from(crypto.ciphertext, 'hex')
    const mac = keccak256(Buffer.concat([key.subarray(16, 32), sealed])).slice(2)
    if (mac !== crypto.mac.toLowerCase()) return refuse('TRUST_WALLET_PASSPHRASE_FILE does not open the keystore')
    const opened = createDecipheriv('aes-128-ctr', key.subarray(0, 16), Buffer.from(crypto.cipherparams.iv, 'hex'))
    return Buffer.concat([opened.update(sealed), opened.final()]).toString('hex')
  } catch (fault) {
    if (fault instanceof ConfigError) throw fault
    // No cause, because its message could quote the file.
    return refuse('the file is not a keystore of version 3')
  }
}

/**
 * Opens the account of the key file; undefined without one. Throws ConfigError if others can read the file, it contains
 * no valid key, or the key belongs to another address. The message never contains any part of the key.
 */
export async function openWallet(config: Config): Promise<PrivateKeyAccount | undefined> {
  const { trustWalletKeyFile: file, trustWalletPassphraseFile: passphraseFile, trustWallet } = config
  if (file === undefined) return undefined
  const text = readPrivateFile(file, setting).trim()
  let key = text.replace(/^0x/, '')
  if (text.startsWith('{')) {
    if (passphraseFile === undefined)
      return refuse('a keystore needs TRUST_WALLET_PASSPHRASE_FILE: set it to the file with its passphrase')
    const passphrase = readPrivateFile(passphraseFile, 'TRUST_WALLET_PASSPHRASE_FILE').replace(/\r?\n$/, '')
    key = await decrypt(text, passphrase)
  }
  if (!/^[0-9a-fA-F]{64}$/.test(key)) return refuse('the file must contain a JSON keystore or 64 hexadecimal digits')
  let account: PrivateKeyAccount
  try {
    account = privateKeyToAccount(`0x${key}` as Hex)
  } catch {
    return refuse('the file contains no valid key')
  }
  if (account.address.toLowerCase() !== trustWallet?.toLowerCase())
    return refuse(`the key is of ${account.address}, TRUST_WALLET_ADDRESS is ${trustWallet}; set it to that address`)
  return account
}

/** Order of the group of secp256k1; keys are 1 to order − 1. */
const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

/**
 * Returns the account that all processes of the deployment derive from the master secret. The derived number has 128 bits
 * more than a key, so that its remainder is uniform (FIPS 186-5, A.2.1).
 */
export function deploymentAccount({ attestationKey }: Pick<Secrets, 'attestationKey'>): PrivateKeyAccount {
  const key = (BigInt(`0x${attestationKey.toString('hex')}`) % (order - 1n)) + 1n
  return privateKeyToAccount(`0x${key.toString(16).padStart(64, '0')}`)
}
