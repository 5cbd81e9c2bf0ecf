import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { missingAnvil, startAnvil } from '../../test-servers/anvil.ts'
import { deployContracts } from '../../test-servers/contracts.ts'
import { startBetween } from '../between.ts'
import { runCommand, startCommand } from '../command.ts'
import { newInstance } from '../fleet.ts'
import { startHttpsFront } from '../https-front.ts'
import { isExternal, needsOwnProcess, startService, until } from '../service.ts'

const missing = isExternal ? needsOwnProcess : missingAnvil()
if (missing !== undefined) process.stdout.write(`The tests of the on-chain commands are left out: ${missing}\n`)

// The first accounts of every anvil.
const key = '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80'
const wallet = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'
const deployer = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'

interface Summary {
  identity: { registered: boolean; agent_id: string | null; status: string }
  attestations: { hash: string; score: number; on_chain?: { uid: string } }[]
  verification: { unified_risk_score: number; on_chain: { request_hash: string | null; report?: string } }
}

/** The hash of an attestation, as an attacker with the service computes it for what was changed. */
function hashAgain(item: Record<string, unknown>): string {
  const fields = ['at', 'namespace', 'period', 'score', 'summary', 'tag', 'title', 'type']
  const text = JSON.stringify(Object.fromEntries(fields.map((name) => [name, item[name]])))
  return `0x${createHash('sha256').update(text).digest('hex')}`
}

/** Opens a chain with the contracts, and the settings of a wallet on it. */
async function openWallet() {
  const chain = await startAnvil()
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
    TRUST_VALIDATION_REGISTRY: contracts.validation,
  }
  return {
    ...{ chain, contracts, folder, env },
    async [Symbol.asyncDispose]() {
      await chain[Symbol.asyncDispose]()
      rmSync(folder, { recursive: true })
    },
  }
}

describe.skipIf(missing !== undefined)('the on-chain side', () => {
  test('registers, attests and is verified by a stranger', async () => {
    await using opened = await openWallet()
    const { chain, contracts, folder } = opened
    await chain.ask('evm_setIntervalMining', 1)
    const front = await startHttpsFront(folder)
    const env = { ...opened.env, WARDLINE_PUBLIC_URL: front.url, WARDLINE_ALERT_ALLOW_CIDRS: '127.0.0.1/32' }
    const service = await startService({ env })
    front.target = service.baseUrl
    const [altered, lying] = [await startBetween(service.baseUrl), await startBetween(chain.url)]
    try {
      const local = { ...env, WARDLINE_DATA_DIR: service.dataDir }
      const asked = await runCommand(['chain', 'register'], local)
      expect(asked.code).toBe(64)
      expect(asked.stderr).toContain('confirm it with --yes')
      expect(asked.stderr).toContain(contracts.identity)
      expect(asked.stderr).toContain('registration-v1')
      expect(Number(await chain.ask('eth_getTransactionCount', wallet, 'latest'))).toBe(0)

      const registered = await runCommand(['chain', 'register', '--yes'], local)
      expect(registered.code, registered.output).toBe(0)
      expect(registered.stdout).toBe('0\n')
      const schema = await runCommand(['chain', 'schema', '--yes'], local)
      expect(schema.code, schema.output).toBe(0)
      expect((await runCommand(['chain', 'schema'], local)).stdout).toBe('The schema is registered already.\n')
      await newInstance(service)
      const summary = async () => (await service.call<Summary>('GET', '/api/public/trust', { key: null })).body
      const { attestations } = await until(
        'attestation on the chain',
        summary,
        (found) => found.identity.registered && found.attestations[0]?.on_chain !== undefined,
        180_000,
      )
      const status = await runCommand(['chain', 'status'], local)
      expect(status.stdout).toContain('agent 0, live')
      expect(status.stdout).toContain(attestations[0]!.on_chain!.uid)
      expect(status.output).not.toContain(key.slice(2))

      const verify = ['attest', 'verify', service.baseUrl, '--json']
      const offline = await runCommand(verify, {})
      expect(offline.code, offline.output).toBe(0)
      expect(JSON.parse(offline.stdout).attestations).toMatchObject([{ signer: wallet, on_chain: null }])
      const node = ['--rpc', chain.url, '--eas', contracts.eas]
      const online = await runCommand([...verify, ...node], {})
      expect(online.code, online.output).toBe(0)
      expect(JSON.parse(online.stdout)).toMatchObject({ ok: true, attestations: [{ on_chain: 'valid' }] })
      const stranger = await runCommand([...verify, ...node, '--attester', deployer], {})
      expect(stranger.code).toBe(1)
      expect(JSON.parse(stranger.stdout)).toMatchObject({ ok: false, attestations: [{ on_chain: 'missing' }] })

      const list = join(folder, 'bad-addresses')
      writeFileSync(list, `${deployer}\n`)
      const run = (args: string[], more: Record<string, string>) =>
        startCommand(['chain', ...args], { ...local, ...front.env, ...more }).ended
      const unlisted = await run(['check', '--json'], {})
      const agent = { subject: 'agent', agent_id: '0', agent_uri: `${front.url}/.well-known/agent-registration.json` }
      expect(JSON.parse(unlisted.stdout), unlisted.output).toMatchObject({
        ...agent,
        wallet,
        unified_risk_score: 0,
        scored: ['wav'],
        not_checked: ['wv', 'mcv'],
        wav: { risk: 0 },
        wv: { risk: null, error: 'VerificationFailed', error_code: '0x04' },
      })
      const refused = await run(['verify', '--yes'], {})
      expect([refused.code, refused.stdout]).toEqual([1, ''])
      expect(refused.stderr).toMatch(/Wallet +none .* VerificationFailed \(0x04\)/)
      expect(refused.stderr).toContain('the wallet (WV) has none: Not compared with a list of bad addresses.')
      const listed = { TRUST_BAD_ADDRESSES_FILE: list }
      const checked = await run(['check'], listed)
      expect(checked.stdout, checked.output).toMatch(
        /^Agent 0 of eip155:31337:.*\n(.*\n)*Media +none +Applies, and is not checked.*\nUnified +0 +over the web application and the wallet\n/,
      )
      const unsure = await run(['verify'], listed)
      expect(unsure.code).toBe(64)
      expect(unsure.stderr).toContain('100 minus the risk of 0')
      const posted = await run(['verify', '--yes'], listed)
      expect(posted.code, posted.output).toBe(0)
      const { verification } = await until('posted verification', summary, (found) =>
        posted.stdout.includes(found.verification.on_chain.request_hash ?? 'none'),
      )
      expect(JSON.parse(verification.on_chain.report!)).toMatchObject({
        agent_uri: agent.agent_uri,
        scored: ['wav', 'wv'],
        not_checked: ['mcv'],
        unified_risk_score: 0,
        response: 100,
      })

      const validations = ['--validation-registry', contracts.validation]
      const part = await runCommand([...verify, ...node], {})
      expect([part.code, part.stderr]).toEqual([
        5,
        expect.stringContaining('Not checked: the posted verification: give --validation-registry <address>.'),
      ])
      const whole = await runCommand([...verify, ...node, ...validations], {})
      expect(whole.code, whole.output).toBe(0)
      expect(JSON.parse(whole.stdout)).toMatchObject({ ok: true, verification: { on_chain: 'valid' } })

      // A service whose operator changes what was published.
      const alteredBy = async (change: (found: Summary) => void, more: string[] = []) => {
        altered.change = (text) => {
          const found = JSON.parse(text) as Summary
          // The signed attestations are read too.
          if (!('attestations' in found)) return text
          change(found)
          return JSON.stringify(found)
        }
        const { code, stdout } = await runCommand(['attest', 'verify', altered.url, '--json', ...more], {})
        return { code, ...JSON.parse(stdout) }
      }
      const changeScore = ({ attestations: [item] }: Summary) => {
        item!.score -= 1
      }
      expect(await alteredBy(changeScore)).toMatchObject({
        code: 1,
        ok: false,
        attestations: [{ is_hash_right: false }],
      })
      const changeBoth = (found: Summary) => {
        changeScore(found)
        found.attestations[0]!.hash = hashAgain({ ...found.attestations[0]! })
      }
      expect(await alteredBy(changeBoth)).toMatchObject({
        code: 1,
        attestations: [{ is_hash_right: true, signature_fault: 'what is signed is not what is published' }],
      })
      const caught = { code: 1, ok: false, attestations: [{ is_hash_right: true, on_chain: 'missing' }] }
      expect(await alteredBy(changeBoth, node)).toMatchObject(caught)
      const changeReport = ({ verification: { on_chain: on } }: Summary) => {
        on.report = on.report!.replace('"unified_risk_score":0', '"unified_risk_score":1').replace(':100', ':99')
      }
      expect(await alteredBy(changeReport, [...node, ...validations])).toMatchObject({
        code: 1,
        ok: false,
        verification: { is_report_right: true, on_chain: 'missing' },
      })

      // A node that lies.
      const askedOf = (method: string, result: string) => (text: string, asked: string) =>
        asked.includes(`"${method}"`) ? JSON.stringify({ ...JSON.parse(text), result }) : text
      const throughLies = async (change: typeof lying.change) => {
        lying.change = change
        return runCommand([...verify, '--rpc', lying.url, '--eas', contracts.eas, ...validations], {})
      }
      const wrongChain = await throughLies(askedOf('eth_chainId', '0x1'))
      expect([wrongChain.code, wrongChain.stdout]).toEqual([2, ''])
      expect(wrongChain.stderr).toContain('The RPC serves chain 1, the attestations are on chain 31337')
      for (const [result, sentence] of [
        ['0x', 'returned data of another format than its interface'],
        [`0x${'f'.repeat(2_000)}`, 'returned data of another format than its interface'],
        [`0x${'0'.repeat(200_000)}`, '64 KiB'],
      ] as const) {
        const lied = await throughLies(askedOf('eth_call', result))
        expect([lied.code, lied.stdout], lied.output).toEqual([1, ''])
        expect(lied.stderr).toContain(sentence)
      }
      // The attestation of another hash, and a response of another score.
      const { hash } = attestations[0]!
      const other = await throughLies((text) => text.replaceAll(hash.slice(2), '1'.repeat(64)))
      expect(JSON.parse(other.stdout)).toMatchObject({ ok: false, attestations: [{ on_chain: 'missing' }] })
      const lower = await throughLies((text) => text.replace(`${'0'.repeat(62)}64`, `${'0'.repeat(62)}63`))
      expect(JSON.parse(lower.stdout)).toMatchObject({ ok: false })

      // A transaction that gets into no block.
      await chain.ask('evm_setIntervalMining', 0)
      const revoke = ['chain', 'revoke', attestations[0]!.on_chain!.uid]
      const unconfirmed = await runCommand(revoke, local)
      expect([unconfirmed.code, unconfirmed.stderr]).toEqual([64, expect.stringMatching(/Costs +at most 0\.\d+/)])
      expect((await runCommand([...revoke, '--yes', '--no-wait'], local)).code).toBe(0)
      const revocation = async () => {
        const { stdout } = await runCommand(['chain', 'status', '--json'], local)
        const sent: { id: string; kind: string; state: string; error: string }[] = JSON.parse(stdout).transactions
        return sent.find(({ kind }) => kind === 'revoke')!
      }
      const { id } = await until('sent revocation', revocation, ({ state }) => state === 'sent')
      const remote = { WARDLINE_URL: service.baseUrl, WARDLINE_KEY: service.key }
      const unasked = await runCommand(['chain', 'drop', id], remote)
      expect([unasked.code, unasked.stdout]).toEqual([64, ''])
      expect(unasked.stderr).toMatch(
        /Drops +revoke with nonce \d+; .*\n.*an empty transaction.*\nCosts +at most 0\.\d+/,
      )
      const dropped = await runCommand(['chain', 'drop', id, '--yes'], remote)
      expect(dropped.code, dropped.output).toBe(0)
      const again = await runCommand(['chain', 'drop', id, '--yes'], remote)
      expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('was already dropped')])
      await until(
        'its empty replacement',
        () => chain.ask<object>('txpool_content'),
        (pool) => JSON.stringify(pool).includes('"input":"0x"'),
      )
      await chain.ask('evm_setIntervalMining', 1)
      await until('dropped revocation', revocation, ({ state, error }) => state === 'failed' && /dropped/.test(error))
      expect((await summary()).attestations[0]).toHaveProperty('on_chain')
    } finally {
      front.close()
      altered.close()
      lying.close()
      await service.stop()
    }
  })

  test('asks again for what has become dearer, and sets the URI of the identity', async () => {
    await using opened = await openWallet()
    const { chain, folder, env } = opened
    const local = { ...env, WARDLINE_DATA_DIR: join(folder, 'data') }
    const created = await runCommand(['keys', 'create', '--scope', 'agent', '--instance', 'a'], local)
    expect(created.code, created.output).toBe(0)
    const register = ['chain', 'register']
    expect((await runCommand([...register, '--yes', '--no-wait'], local)).code).toBe(0)
    await chain.ask('anvil_setNextBlockBaseFeePerGas', `0x${(4e9).toString(16)}`)
    await chain.ask('anvil_mine', '0x1')
    const asked = await runCommand(register, local)
    expect([asked.code, asked.stderr]).toEqual([
      64,
      expect.stringMatching(/Queued already: at most 0\.\d+ was confirmed, .*\n(.*\n)*Costs +at most 0\.\d+/),
    ])
    expect(Number(await chain.ask('eth_getTransactionCount', wallet, 'pending'))).toBe(0)
    await chain.ask('evm_setIntervalMining', 1)
    const confirmed = await runCommand([...register, '--yes'], local)
    expect([confirmed.code, confirmed.stdout], confirmed.output).toEqual([0, '0\n'])

    // The embedded file could not name the agent before.
    expect(confirmed.stderr).toContain('`wardline chain set-uri` sets it')
    expect((await runCommand(['chain'], local)).stdout).toMatch(
      /URI +data:application\/json;base64,.*; the configuration/,
    )
    const setUri = ['chain', 'set-uri']
    const shown = await runCommand(setUri, local)
    expect([shown.code, shown.stderr]).toEqual([64, expect.stringMatching(/Costs +at most 0\.\d+/)])
    expect(shown.stderr).toMatch(/Old URI +data:.*\nNew URI +data:/)
    expect(shown.stderr).toContain('"agentId": 0')
    const set = await runCommand([...setUri, '--yes'], local)
    expect([set.code, set.stdout], set.output).toEqual([0, '0\n'])
    expect((await runCommand(['chain'], local)).stdout).not.toContain('URI ')
    const again = await runCommand([...setUri, '--yes'], local)
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('there is nothing to change')])
  })
})
