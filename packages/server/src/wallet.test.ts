import { createCipheriv, pbkdf2Sync, scryptSync } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keccak256 } from 'viem/utils'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { describeConfig, readConfig, withoutConfiguredSecrets } from './config/config.ts'
import { testAddress, testKey } from './testing/chain.ts'
import { openWallet } from './wallet.ts'

const passphrase = 'the passphrase of a test'
let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'wardline-test-wallet-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const salt = '11'.repeat(32)
const kdfs = {
  scrypt: {
    kdfparams: { dklen: 32, n: 1024, r: 8, p: 1, salt },
    key: scryptSync(passphrase, Buffer.from(salt, 'hex'), 32, { N: 1024, r: 8, p: 1 }),
  },
  pbkdf2: {
    kdfparams: { dklen: 32, c: 1000, prf: 'hmac-sha256', salt },
    key: pbkdf2Sync(passphrase, Buffer.from(salt, 'hex'), 1000, 32, 'sha256'),
  },
}

/** A keystore in the format of geth and Foundry. */
function keystore(kdf: keyof typeof kdfs) {
  const { kdfparams, key } = kdfs[kdf]
  const iv = Buffer.alloc(16, 7)
  const cipher = createCipheriv('aes-128-ctr', key.subarray(0, 16), iv)
  const sealed = Buffer.concat([cipher.update(Buffer.from(testKey.slice(2), 'hex')), cipher.final()])
  const mac = keccak256(Buffer.concat([key.subarray(16), sealed])).slice(2)
  const crypto = { cipher: 'aes-128-ctr', ciphertext: sealed.toString('hex'), cipherparams: { iv: iv.toString('hex') } }
  return { version: 3, crypto: { ...crypto, kdf, kdfparams, mac } }
}

function write(name: string, text: string, mode = 0o600): string {
  const file = join(folder, name)
  writeFileSync(file, text)
  chmodSync(file, mode)
  return file
}

const configOf = (env: Record<string, string>) =>
  readConfig({
    TRUST_RPC_URL: 'https://node.example/v2/rpc-password/rpc-token',
    TRUST_WALLET_ADDRESS: testAddress,
    ...env,
  })
const open = (text: string, { mode = 0o600, env = {} }: { mode?: number; env?: Record<string, string> } = {}) =>
  openWallet(configOf({ TRUST_WALLET_KEY_FILE: write('key', text, mode), ...env }))

const refusal = (opening: Promise<unknown>): Promise<string> =>
  opening.then(
    () => 'opened',
    (fault) => (fault as Error).message,
  )

describe('openWallet', () => {
  it('opens hexadecimal digits, with and without 0x', async () => {
    expect((await open(testKey))?.address).toBe(testAddress)
    expect((await open(`${testKey.slice(2).toUpperCase()}\n`))?.address).toBe(testAddress)
    expect(await openWallet(configOf({}))).toBeUndefined()
  })

  it.each(['scrypt', 'pbkdf2'] as const)('opens a %s keystore with its passphrase', async (kdf) => {
    const env = { TRUST_WALLET_PASSPHRASE_FILE: write('passphrase', `${passphrase}\n`) }
    expect((await open(JSON.stringify(keystore(kdf)), { env }))?.address).toBe(testAddress)
  })

  // Anyone who can read the file can spend the wallet's funds.
  it('refuses a file that others can read', async () => {
    for (const mode of [0o644, 0o640, 0o604]) {
      expect(await refusal(open(testKey, { mode }))).toMatch(/others on this machine can read .*: run chmod 600/)
    }
    const env = { TRUST_WALLET_PASSPHRASE_FILE: write('passphrase', passphrase, 0o644) }
    expect(await refusal(open(JSON.stringify(keystore('scrypt')), { env }))).toMatch(/PASSPHRASE_FILE: others/)
  })

  it('refuses everything else with a sentence that contains no part of the key', async () => {
    const wrong = { TRUST_WALLET_PASSPHRASE_FILE: write('wrong', 'another one') }
    const good = { TRUST_WALLET_PASSPHRASE_FILE: write('right', passphrase) }
    const sealed = keystore('scrypt')
    const costly = { ...sealed, crypto: { ...sealed.crypto, kdfparams: { ...sealed.crypto.kdfparams, n: 2 ** 30 } } }
    const cases: [() => Promise<unknown>, RegExp][] = [
      [() => open(testKey.slice(0, -1)), /64 hexadecimal digits/],
      [() => open(`0x${'0'.repeat(64)}`), /no valid key/],
      [() => open(`0x${'f'.repeat(64)}`), /no valid key/],
      [() => open(testKey, { env: { TRUST_WALLET_ADDRESS: `0x${'1'.repeat(40)}` } }), /the key is of 0xf39Fd6e5/],
      [() => open(JSON.stringify(sealed)), /needs TRUST_WALLET_PASSPHRASE_FILE/],
      [() => open(JSON.stringify(sealed), { env: wrong }), /does not open the keystore/],
      [() => open('{"version":3}', { env: good }), /is not a keystore of version 3/],
      [() => open(`{${testKey}`, { env: good }), /is not a keystore of version 3/],
      [() => open(JSON.stringify(costly), { env: good }), /more than 1 GiB/],
      [() => openWallet(configOf({ TRUST_WALLET_KEY_FILE: join(folder, 'none') })), /cannot be read \(ENOENT\)/],
    ]
    for (const [opening, sentence] of cases) {
      const message = await refusal(opening())
      expect(message).toMatch(sentence)
      expect(message).toMatch(/^TRUST_WALLET_/)
      expect(message).not.toContain(testKey.slice(2, 20))
      expect(message).not.toContain(passphrase)
    }
  })

  it('does not appear in the configuration, and neither does the RPC address', () => {
    const config = configOf({ TRUST_WALLET_KEY_FILE: write('key', testKey) })
    const shown = JSON.stringify(describeConfig(config))
    for (const secret of [testKey.slice(2), 'rpc-password', 'rpc-token']) expect(shown).not.toContain(secret)
    expect(withoutConfiguredSecrets(config, `asked ${config.trustRpcUrl}`)).toBe('asked (secret)')
  })

  it('is one of key file and signer, and both need the address; a node only to send something', () => {
    const file = { TRUST_WALLET_KEY_FILE: 'x' }
    const url = 'https://signer.example/signer-token'
    const signer = { TRUST_SIGNER_URL: url }
    const address = { TRUST_WALLET_ADDRESS: testAddress }
    const refused: [Record<string, string>, string][] = [
      [file, 'TRUST_WALLET_KEY_FILE needs TRUST_WALLET_ADDRESS'],
      [signer, 'TRUST_SIGNER_URL needs TRUST_WALLET_ADDRESS'],
      [{ ...signer, ...file, ...address }, 'TRUST_SIGNER_URL are both set'],
      [{ TRUST_WALLET_PASSPHRASE_FILE: 'x' }, 'TRUST_WALLET_PASSPHRASE_FILE needs TRUST_WALLET_KEY_FILE'],
      [{ TRUST_ATTEST_ON_CHAIN: 'true', TRUST_RPC_URL: 'http://node.example' }, 'needs TRUST_WALLET_KEY_FILE'],
      [{ TRUST_ATTEST_ON_CHAIN: 'true', ...signer, ...address }, 'TRUST_ATTEST_ON_CHAIN needs TRUST_RPC_URL'],
      [{ ...address, TRUST_SIGNER_URL: 'ipc:///signer-token' }, 'TRUST_SIGNER_URL must begin with https://'],
    ]
    for (const [env, sentence] of refused) {
      expect(() => readConfig(env)).toThrow(sentence)
      expect(() => readConfig(env)).not.toThrow('signer-token')
    }
    expect(readConfig({ ...file, ...address }).trustRpcUrl).toBeUndefined()
    const config = readConfig({ ...signer, ...address })
    expect(JSON.stringify(describeConfig(config))).not.toContain('signer-token')
    expect(withoutConfiguredSecrets(config, `asked ${url}`)).toBe('asked (secret)')
  })

  it('accepts amounts as decimal numbers', () => {
    expect(configOf({ TRUST_MAX_FEE_GWEI: '0.5', TRUST_WEEKLY_BUDGET: '1' })).toMatchObject({
      trustMaxFeeGwei: 500_000_000n,
      trustWeeklyBudget: 10n ** 18n,
    })
    for (const value of ['0', '-1', '1e3', '0.0000000001', '.5', 'NaN'])
      expect(() => configOf({ TRUST_MAX_FEE_GWEI: value })).toThrow('TRUST_MAX_FEE_GWEI must be')
  })
})
