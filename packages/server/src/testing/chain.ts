import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TrustSummary } from '@wardline/contract'
import { startAnvil, type TestChain } from '../../../../test-servers/anvil.ts'
import { type Contracts, deployContracts } from '../../../../test-servers/contracts.ts'
import type { SubmittedRecord } from '../features/chain/attestation-sink.ts'
import { attestationHash } from '../features/trust/attestation.ts'
import { openTestService, type TestService } from './service.ts'

/** First account of every anvil. Its key is public, so it has no funds anywhere. */
export const testKey = '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80'
export const testAddress = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'
/** Second account, which deploys contracts, so that the service's wallet starts with nonce 0. */
export const otherAddress = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'

type Answer = { status?: number; body: string } | 'pass' | 'lose' | 'silent'

/** Intercepts requests to the node and may replace its response. */
interface Lies {
  answer?: ((method: string, params: unknown[], truth: () => Promise<string>) => Answer | Promise<Answer>) | undefined
}

export interface ChainService extends AsyncDisposable {
  chain: TestChain
  contracts: Contracts
  folder: string
  env: Record<string, string>
  lies: Lies
  /** Methods that reached the node. */
  asked: string[]
  open(env?: Record<string, string>, shared?: TestService): Promise<TestService>
}

async function startProxy(chain: TestChain, lies: Lies, asked: string[]) {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks).toString()
    const { method, params } = JSON.parse(body) as { method: string; params: unknown[] }
    const truth = async () => {
      asked.push(method)
      const headers = { 'content-type': 'application/json' }
      return (await fetch(chain.url, { method: 'POST', headers, body })).text()
    }
    const answer = (await lies.answer?.(method, params, truth)) ?? 'pass'
    if (answer === 'silent') return
    if (answer === 'lose') {
      await truth()
      request.socket.destroy()
      return
    }
    const { status = 200, body: text } = answer === 'pass' ? { body: await truth() } : answer
    response.writeHead(status, { 'content-type': 'application/json' }).end(text)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** Opens a chain with the contracts, a wallet, and a node whose responses can be falsified. */
export async function openChainService(): Promise<ChainService> {
  const chain = await startAnvil()
  const contracts = await deployContracts(chain, otherAddress)
  const folder = mkdtempSync(join(tmpdir(), 'wardline-test-wallet-'))
  const keyFile = join(folder, 'key')
  writeFileSync(keyFile, `${testKey}\n`, { mode: 0o600 })
  const lies: Lies = {}
  const asked: string[] = []
  const proxy = await startProxy(chain, lies, asked)
  const env = {
    TRUST_RPC_URL: proxy.url,
    TRUST_CHAIN_ID: '31337',
    TRUST_WALLET_KEY_FILE: keyFile,
    TRUST_WALLET_ADDRESS: testAddress,
    TRUST_ERC8004_REGISTRY: contracts.identity,
    TRUST_EAS_ADDRESS: contracts.eas,
    TRUST_EAS_SCHEMA_REGISTRY: contracts.schemas,
    TRUST_ATTEST_ON_CHAIN: 'true',
    TRUST_VALIDATION_REGISTRY: contracts.validation,
  }
  return {
    chain,
    contracts,
    folder,
    env,
    lies,
    asked,
    open: (more = {}, shared) =>
      openTestService({
        env: { ...env, ...more },
        ...(shared ? { dataDir: shared.deps.config.dataDir, clock: shared.clock } : {}),
      }),
    async [Symbol.asyncDispose]() {
      proxy.close()
      await chain[Symbol.asyncDispose]()
      rmSync(folder, { recursive: true })
    },
  }
}

export const mine = (chain: TestChain, blocks: number) => chain.ask('anvil_mine', `0x${blocks.toString(16)}`)

/** Runs the periodic work once, after the pause that follows an error. */
export async function turn(service: TestService): Promise<void> {
  service.clock.advance(600_000)
  await service.services.chain!.run()
  await service.services.chain!.report(service.services.ingest)
}

export async function trust(service: TestService): Promise<TrustSummary> {
  service.clock.advance(10_000)
  return (await service.call<TrustSummary>('GET', '/api/public/trust', { key: null })).body
}

/** Reads the stored transactions. */
export const transactions = (service: TestService) =>
  service.rows<{ kind: string; state: string; error: string | null; nonce: number | null; result: string | null }>(
    'select kind, state, error, nonce, result from chain_transactions order by created_at, id',
  )

export function record(number = 1): SubmittedRecord {
  const fields = {
    namespace: 'wardline.v1',
    type: 'Posture',
    title: 'Weekly security posture',
    summary: `Number ${number}`,
    tag: 'posture.weekly',
    score: 90,
    at: Date.UTC(2026, 0, 14),
    period: '2026-W03',
  }
  return { ...fields, hash: attestationHash(fields) }
}

/** Returns the number of attestations in the contract. */
export async function countOf({ chain, contracts }: ChainService): Promise<number> {
  return Number(await chain.ask('eth_call', { to: contracts.eas, data: '0x06661abd' }, 'latest'))
}

/** Registers the schema by the service and confirms it. */
export async function withSchema({ chain }: ChainService, service: TestService): Promise<void> {
  const planned = await service.services.chain!.planSchema()
  await planned.send!()
  await turn(service)
  await mine(chain, 3)
  await turn(service)
}

/** Registers the identity (agent 0) by the service and confirms it. */
export async function withIdentity({ chain }: ChainService, service: TestService): Promise<void> {
  const planned = await service.services.chain!.planRegistration()
  await planned.send!()
  await turn(service)
  await mine(chain, 3)
  await turn(service)
  await turn(service)
}
