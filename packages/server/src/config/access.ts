import { isLoopback } from '@wardline/text'
import { oneOf, setting } from './values.ts'

const defaultText = (closed: string) =>
  `Default: \`none\` while only this machine reaches the service, \`${closed}\` if HOST is not a loopback address or if WARDLINE_PUBLIC_URL, WARDLINE_ALLOWED_HOSTS or WARDLINE_TRUSTED_PROXIES says that others do`

/** Whether events and metrics are read without a key. Their defaults depend on `reachedBy`. */
export const accessSettings = {
  streamAuth: setting({
    env: 'WARDLINE_STREAM_AUTH',
    unset: undefined,
    meaning: `\`session\` requires a dashboard session or a key on /api/stream, \`none\` does not. ${defaultText('session')}`,
    parse: oneOf(['none', 'session']),
  }),
  metricsAuth: setting({
    env: 'WARDLINE_METRICS_AUTH',
    unset: undefined,
    meaning: `\`key\` requires a key on /metrics, \`none\` does not. ${defaultText('key')}`,
    parse: oneOf(['none', 'key']),
  }),
}

interface Hosts {
  host: string
  publicUrl?: string | undefined
  allowedHosts?: readonly string[] | undefined
  trustedProxies?: unknown
}

/** Returns the setting that says that other machines reach the service; undefined if none does. */
export function reachedBy({ host, publicUrl, allowedHosts, trustedProxies }: Hosts): string | undefined {
  if (!isLoopback(host)) return `HOST is ${host}`
  if (publicUrl !== undefined && !isLoopback(new URL(publicUrl).hostname)) return `WARDLINE_PUBLIC_URL is ${publicUrl}`
  if (allowedHosts?.some((name) => !isLoopback(name))) return `WARDLINE_ALLOWED_HOSTS is ${allowedHosts.join(', ')}`
  return trustedProxies === undefined ? undefined : 'WARDLINE_TRUSTED_PROXIES is set'
}
