import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { encodeFunctionData, parseAbi } from 'viem/utils'
import { type ChainService, mine, openChainService } from './chain.ts'
import { startAgent, type TestAgent } from './https-site.ts'

const abi = parseAbi([
  'function register(string agentURI)',
  'function setWallet(uint256 agentId, address wallet)',
  'function transfer(uint256 agentId, address to)',
])

type Call =
  | { functionName: 'register'; args: [string] }
  | { functionName: 'setWallet' | 'transfer'; args: [bigint, `0x${string}`] }

export interface ChainAgent extends ChainService {
  agent: TestAgent
  /** File with one address that nobody uses. */
  list: string
  /** Sends a transaction of an account to the identity registry. */
  send(from: string, call: Call): Promise<void>
}

/** Opens a chain, and the site of an agent about which everything can be checked once it is registered. */
export async function openAgentChain(): Promise<ChainAgent> {
  const [on, agent] = [await openChainService(), await startAgent()]
  const list = join(on.folder, 'bad-addresses')
  writeFileSync(list, `0x${'1'.repeat(40)}\n`)
  Object.assign(on.env, agent.env, { TRUST_BAD_ADDRESSES_FILE: list })
  return {
    ...on,
    agent,
    list,
    async send(from, call) {
      const data = encodeFunctionData({ abi, ...call } as Parameters<typeof encodeFunctionData>[0])
      await on.chain.ask('eth_sendTransaction', { from, to: on.contracts.identity, data, gas: '0x989680' })
      await mine(on.chain, 1)
    },
    async [Symbol.asyncDispose]() {
      await agent[Symbol.asyncDispose]()
      await on[Symbol.asyncDispose]()
    },
  }
}
