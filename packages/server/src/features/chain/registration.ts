import { type AgentRegistration, registrationType } from '@wardline/contract'
import type { Config } from '../../config/config.ts'
import { dataUriOf } from './data-uri.ts'
import { agentRegistryOf } from './known-contracts.ts'

/** ERC-8004 has numbers; above 2^53 they would be another agent. */
export function agentNumber(agentId: string): number | string {
  const id = Number(agentId)
  return Number.isSafeInteger(id) ? id : agentId
}

/** Returns the ERC-8004 registration file that the on-chain identity points to. It contains only public addresses. */
export function registrationOf(config: Config, agentId: string | undefined): AgentRegistration {
  const { trustName } = config
  const publicUrl = config.publicUrl?.replace(/\/$/, '')
  return {
    type: registrationType,
    name: trustName,
    description: 'A fleet of AI agents under security monitoring by Wardline',
    ...(publicUrl === undefined ? {} : { image: `${publicUrl}/trust/badge.svg` }),
    services: publicUrl === undefined ? [] : [{ name: 'web', endpoint: `${publicUrl}/trust` }],
    x402Support: false,
    active: agentId !== undefined || config.trustRpcUrl !== undefined,
    registrations:
      agentId === undefined ? [] : [{ agentId: agentNumber(agentId), agentRegistry: agentRegistryOf(config) }],
    supportedTrust: [],
  }
}

/**
 * Returns the URI of the registration file: at this service if its public URL is HTTPS, else a data URI. That one names the
 * agent id only once it is known.
 */
export function agentUriOf(config: Config, agentId: string | undefined): string {
  const publicUrl = config.publicUrl?.replace(/\/$/, '')
  if (publicUrl?.startsWith('https://')) return `${publicUrl}/.well-known/agent-registration.json`
  return dataUriOf(JSON.stringify(registrationOf(config, agentId)))
}
