import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { missingAnvil, startAnvil } from '../test-servers/anvil.ts'
import { deployContracts } from '../test-servers/contracts.ts'
import { startCommand } from './command.ts'
import { newInstance } from './fleet.ts'
import { isExternal, needsOwnProcess, startService, until } from './service.ts'

const missing = isExternal ? needsOwnProcess : missingAnvil()
if (missing !== undefined) process.stdout.write(`The tests of the on-chain commands are left out: ${missing}\n`)

// The first accounts of every anvil.
const key = '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80'
const wallet = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'
const deployer = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'

interface Summary {
  identity: { registered: boolean; agent_id: string | null; status: string }
  attestations: { hash: string; on_chain?: { uid: string } }[]
}

describe.skipIf(missing !== undefined)('the on-chain side', () => {
  test('registers, attests and is verified by a stranger', async () => {
    await using chain = await startAnvil()
    const contracts = await deployContracts(chain, deployer)
    const folder = mkdtempSync(join(tmpdir(), 'wardline-test-wallet-'))
    const keyFile = join(folder, 'key')
    writeFileSync(keyFile, key, { mode: 0o600 })
    const env = {
      TRUST_RPC_URL: chain.url,
      TRUST_CHAIN_ID: '31337',
      TRUST_WALLET_KEY_FILE: keyFile,
      TRUST_WALLET_ADDRESS: wallet,
      TRUST_ERC8004_REGISTRY: contracts.identity,
      TRUST_EAS_ADDRESS: contracts.eas,
      TRUST_EAS_SCHEMA_REGISTRY: contracts.schemas,
      TRUST_ATTEST_ON_CHAIN: 'true',
    }
    await chain.ask('evm_setIntervalMining', 1)
    const service = await startService({ env })
    try {
      const local = { ...env, WARDLINE_DATA_DIR: service.dataDir }
      const asked = await startCommand(['chain', 'register'], local).ended
      expect(asked.code).toBe(64)
      expect(asked.stderr).toContain('confirm it with --yes')
      expect(asked.stderr).toContain(contracts.identity)
      expect(asked.stderr).toContain('registration-v1')
      expect(Number(await chain.ask('eth_getTransactionCount', wallet, 'latest'))).toBe(0)

      const registered = await startCommand(['chain', 'register', '--yes'], local).ended
      expect(registered.code, registered.output).toBe(0)
      expect(registered.stdout).toBe('0\n')
      const schema = await startCommand(['chain', 'schema', '--yes'], local).ended
      expect(schema.code, schema.output).toBe(0)
      expect((await startCommand(['chain', 'schema'], local).ended).stdout).toBe('The schema is registered already.\n')
      await newInstance(service)
      const summary = async () => (await service.call<Summary>('GET', '/api/public/trust', { key: null })).body
      const { attestations } = await until(
        'attestation on the chain',
        summary,
        (found) => found.identity.registered && found.attestations[0]?.on_chain !== undefined,
        180_000,
      )
      const status = await startCommand(['chain', 'status'], local).ended
      expect(status.stdout).toContain('agent 0, live')
      expect(status.stdout).toContain(attestations[0]!.on_chain!.uid)
      expect(status.output).not.toContain(key.slice(2))

      const verify = ['attest', 'verify', service.baseUrl, '--json']
      const offline = await startCommand(verify, {}).ended
      expect(offline.code, offline.output).toBe(0)
      const node = ['--rpc', chain.url, '--eas', contracts.eas]
      const online = await startCommand([...verify, ...node], {}).ended
      expect(online.code, online.output).toBe(0)
      expect(JSON.parse(online.stdout)).toMatchObject({ ok: true, attestations: [{ on_chain: 'valid' }] })
      const stranger = await startCommand([...verify, ...node, '--attester', deployer], {}).ended
      expect(stranger.code).toBe(1)
      expect(JSON.parse(stranger.stdout)).toMatchObject({ ok: false, attestations: [{ on_chain: 'missing' }] })
    } finally {
      await service.stop()
      rmSync(folder, { recursive: true })
    }
  })
})
