import { type KeyQuotas, limits, type QuotaName, quotaNames } from '@wardline/contract'
import type { Config } from '../../config/config.ts'
import type { KeyRow } from './queries.ts'

/** The limits of one key; null = no limit. */
export type Limits = Record<QuotaName, number | null>

const settingOf = {
  events_per_second: 'quotaEvents',
  critical_events_per_second: 'quotaCriticalEvents',
  bytes_per_second: 'quotaBytes',
  checks_per_second: 'quotaChecks',
  new_instances_per_hour: 'quotaNewInstances',
  streams: 'quotaStreams',
} as const satisfies Record<QuotaName, keyof Config>

/** Multiplies the default limits of keys that a fleet shares, such as those bound to a prefix. */
const fleetFactor = 10

function defaultLimits(config: Config, factor: number): Limits {
  const limits = quotaNames.map((name) => {
    const limit = config[settingOf[name]]
    return [name, limit === null ? null : limit * factor]
  })
  return Object.fromEntries(limits) as Limits
}

const noLimits = Object.fromEntries(quotaNames.map((name) => [name, null])) as Limits

/** Returns the limits of a key: its own quotas, else for agent keys the configured defaults, else none. */
export function limitsOf(key: Pick<KeyRow, 'scope' | 'instances' | 'quotas'>, config: Config): Limits {
  const isFleet = (JSON.parse(key.instances) as string[]).some((bound) => bound.endsWith('*'))
  const defaults = key.scope === 'agent' ? defaultLimits(config, isFleet ? fleetFactor : 1) : noLimits
  return { ...defaults, ...(JSON.parse(key.quotas ?? '{}') as KeyQuotas satisfies Partial<Limits>) }
}

/** Returns the limits of WARDLINE_API_KEY, which all agents of a simple installation share. */
export const limitsOfConfiguredKey = (config: Config): Limits =>
  config.apiKeyQuotas ? defaultLimits(config, fleetFactor) : noLimits

/** Returns the maximum number of instances that a key may register; null = only the limit of the service. */
export const maxInstances = ({ scope, max_instances }: Pick<KeyRow, 'scope' | 'max_instances'>): number | null =>
  scope === 'agent' ? (max_instances ?? limits.keyInstances) : null
