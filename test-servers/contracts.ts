import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { TestChain } from './anvil.ts'

interface Compiled {
  contracts: Record<string, Record<string, { evm: { bytecode: { object: string } } }>>
  errors?: { severity: string; formattedMessage: string }[]
}

let compiled: Compiled | undefined

/** Compiled once per process, when a test needs it. */
function bytecodeOf(name: string): string {
  if (!compiled) {
    const solc = createRequire(import.meta.url)('solc') as { compile(input: string): string }
    const content = readFileSync(new URL('contracts/Registries.sol', import.meta.url), 'utf8')
    const settings = { outputSelection: { '*': { '*': ['evm.bytecode.object'] } }, evmVersion: 'paris' }
    const input = { language: 'Solidity', sources: { 'Registries.sol': { content } }, settings }
    compiled = JSON.parse(solc.compile(JSON.stringify(input))) as Compiled
    const fault = compiled.errors?.find(({ severity }) => severity === 'error')
    if (fault) throw new Error(fault.formattedMessage)
  }
  return `0x${compiled.contracts['Registries.sol']![name]!.evm.bytecode.object}`
}

/** Addresses of the contracts on a chain. */
export interface Contracts {
  identity: string
  schemas: string
  eas: string
  validation: string
  reputation: string
}

export async function deployContracts(chain: TestChain, from: string): Promise<Contracts> {
  const deploy = async (name: string, args = '') => {
    const data = bytecodeOf(name) + args
    const hash = await chain.ask('eth_sendTransaction', { from, data, gas: '0x4c4b40' })
    await chain.ask('anvil_mine', '0x1')
    const { contractAddress } = await chain.ask<{ contractAddress: string }>('eth_getTransactionReceipt', hash)
    return contractAddress
  }
  const identity = await deploy('IdentityRegistry')
  const schemas = await deploy('SchemaRegistry')
  const eas = await deploy('EAS', schemas.slice(2).padStart(64, '0'))
  const ofIdentity = identity.slice(2).padStart(64, '0')
  const validation = await deploy('ValidationRegistry', ofIdentity)
  const reputation = await deploy('ReputationRegistry', ofIdentity)
  return { identity, schemas, eas, validation, reputation }
}
