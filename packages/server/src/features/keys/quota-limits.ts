import { type KeyQuotas, limits, type QuotaName, quotaNames } from '@wardline/contract'
import type { Config } from '../../config.ts'
import type { KeyRow } from './queries.ts'

/** What holds for one key: a number for each quota, null = no limit. */
export type Limits = Record<QuotaName, number | null>

const settingOf = {
  events_per_second: 'quotaEvents',
  critical_events_per_second: 'quotaCriticalEvents',
  bytes_per_second: 'quotaBytes',
  checks_per_second: 'quotaChecks',
  new_instances_per_hour: 'quotaNewInstances',
  streams: 'quotaStreams',
} as const satisfies Record<QuotaName, keyof Config>

/** A key with a prefix speaks for a fleet. */
const fleetFactor = 10

function defaultLimits(config: Config, factor: number): Limits {
  const limits = quotaNames.map((name) => {
    const limit = config[settingOf[name]]
    return [name, limit === null ? null : limit * factor]
  })
  return Object.fromEntries(limits) as Limits
}

const noLimits = Object.fromEntries(quotaNames.map((name) => [name, null])) as Limits

/** The quotas of a key: its own ones, else the settings for agents, else none. */
export function limitsOf(key: Pick<KeyRow, 'scope' | 'instances' | 'quotas'>, config: Config): Limits {
  const isFleet = (JSON.parse(key.instances) as string[]).some((bound) => bound.endsWith('*'))
  const defaults = key.scope === 'agent' ? defaultLimits(config, isFleet ? fleetFactor : 1) : noLimits
  return { ...defaults, ...(JSON.parse(key.quotas ?? '{}') as KeyQuotas satisfies Partial<Limits>) }
}

/** The quotas of WARDLINE_API_KEY, which simple installations share among all agents. */
export const limitsOfConfiguredKey = (config: Config): Limits =>
  config.apiKeyQuotas ? defaultLimits(config, fleetFactor) : noLimits

/** Instances that a key may register; null = the default limit. */
export const maxInstances = ({ scope, max_instances }: Pick<KeyRow, 'scope' | 'max_instances'>): number | null =>
  scope === 'agent' ? (max_instances ?? limits.keyInstances) : null
