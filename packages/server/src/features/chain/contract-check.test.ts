import { describe, expect, it } from 'vitest'
import { missingAnvil } from '../../../../../test-servers/anvil.ts'
import {
  countOf,
  mine,
  openChainService,
  otherAddress,
  record,
  transactions,
  turn,
  withSchema,
} from '../../testing/chain.ts'

const missing = missingAnvil()
if (missing !== undefined) console.warn(`${missing}: checks of contracts are not tested`)

describe.skipIf(missing !== undefined)('before anything is signed', () => {
  // An address without code takes the fee of every call, and logs nothing that could be confirmed.
  it('each address must have a contract of the right kind', async () => {
    await using on = await openChainService()
    const { identity, eas } = on.contracts
    const refused = async (env: Record<string, string>, plan: 'planRegistration' | 'planSchema') => {
      await using service = await on.open(env)
      return await service.services.chain![plan]().then(
        () => 'planned',
        (fault: Error) => fault.message,
      )
    }
    const ofAddress = (address: string) => `there is no contract at ${address} on this chain: correct the address.`
    expect(await refused({ TRUST_ERC8004_REGISTRY: otherAddress }, 'planRegistration')).toBe(
      `TRUST_ERC8004_REGISTRY: ${ofAddress(otherAddress)}`,
    )
    expect(await refused({ TRUST_ERC8004_REGISTRY: eas }, 'planRegistration')).toBe(
      `TRUST_ERC8004_REGISTRY: the contract at ${eas} is not an identity registry of ERC-8004: correct the address.`,
    )
    expect(await refused({ TRUST_EAS_SCHEMA_REGISTRY: otherAddress }, 'planSchema')).toBe(
      `TRUST_EAS_SCHEMA_REGISTRY: ${ofAddress(otherAddress)}`,
    )
    expect(await refused({ TRUST_EAS_SCHEMA_REGISTRY: identity }, 'planSchema')).toBe(
      `TRUST_EAS_SCHEMA_REGISTRY: the contract at ${identity} is not a schema registry of EAS: correct the address.`,
    )
    expect(on.asked).not.toContain('eth_sendRawTransaction')
  })

  it('an attestation for a wrong address waits, unpaid, and goes to the right one once it is corrected', async () => {
    await using on = await openChainService()
    await using first = await on.open()
    await withSchema(on, first)
    await using wrong = await on.open({ TRUST_EAS_ADDRESS: otherAddress }, first)
    await wrong.services.chain!.submit([record()])
    const sends = on.asked.filter((method) => method === 'eth_sendRawTransaction').length
    await turn(wrong)
    expect((await transactions(wrong)).at(-1)).toMatchObject({ kind: 'attest', state: 'pending' })
    expect(on.asked.filter((method) => method === 'eth_sendRawTransaction')).toHaveLength(sends)
    await turn(first)
    await mine(on.chain, 3)
    await turn(first)
    expect((await transactions(first)).at(-1)).toMatchObject({ kind: 'attest', state: 'confirmed' })
    expect(await countOf(on)).toBe(1)
  })
})
