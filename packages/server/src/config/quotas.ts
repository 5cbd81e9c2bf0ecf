import { flag, refuse, setting } from './values.ts'

const quota = (value: string): number | null => {
  if (value === 'none') return null
  const number = Number(value)
  const fits = /^\d+$/.test(value) && number >= 1 && number <= 1e9
  return fits ? number : refuse('must be a whole number from 1 to 1000000000, or none')
}

/** Default quotas of agent keys; see features/keys/quotas.ts. */
export const quotaSettings = {
  quotaEvents: setting({
    env: 'WARDLINE_QUOTA_EVENTS',
    unset: '500',
    meaning:
      'Info and warning events that an agent key may report per second, in each process; ten times as many for a key with a prefix; `none` = no limit; see the guide on operating',
    parse: quota,
  }),
  quotaCriticalEvents: setting({
    env: 'WARDLINE_QUOTA_CRITICAL_EVENTS',
    unset: '50',
    meaning: 'The same limit for critical and breach events, which count only here',
    parse: quota,
  }),
  quotaBytes: setting({
    env: 'WARDLINE_QUOTA_BYTES',
    unset: '1048576',
    meaning: 'The same limit for the bytes of info and warning events',
    parse: quota,
  }),
  quotaChecks: setting({
    env: 'WARDLINE_QUOTA_CHECKS',
    unset: '100',
    meaning: 'The same limit for decoy checks',
    parse: quota,
  }),
  quotaNewInstances: setting({
    env: 'WARDLINE_QUOTA_NEW_INSTANCES',
    unset: '100',
    meaning: 'The same limit for instances that the key registers, per hour',
    parse: quota,
  }),
  quotaStreams: setting({
    env: 'WARDLINE_QUOTA_STREAMS',
    unset: '200',
    meaning: 'The same limit for open streams',
    parse: quota,
  }),
  apiKeyQuotas: setting({
    env: 'WARDLINE_API_KEY_QUOTAS',
    unset: 'false',
    meaning: '`true` also applies these quotas to WARDLINE_API_KEY, as to a key with a prefix',
    parse: flag,
  }),
}
