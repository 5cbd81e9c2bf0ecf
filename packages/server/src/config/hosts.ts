import { isIP } from 'node:net'
import { domainToASCII } from 'node:url'
import { urlFault } from './setting-faults.ts'
import { integer, oneOf, refuse, setting, text } from './values.ts'

const label = '[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?'
const hostNamePattern = new RegExp(`^(\\*\\.)?${label}(\\.${label})*$`)

/** Normalizes a name to the form that browsers send: lower case, ASCII (IDNA), without a trailing dot. */
function hostName(part: string): string {
  const address = part.replace(/^\[(.*)\]$/, '$1').toLowerCase()
  if (isIP(address) !== 0) return address
  const [, wildcard = '', rest = ''] = /^(\*\.)?(.*)$/s.exec(part) ?? []
  // domainToASCII would drop a slash and everything after it instead of failing.
  const name = /[\s/:@?#\\%[\]]/.test(rest) ? '' : wildcard + domainToASCII(rest).replace(/\.$/, '')
  const fits = name.length <= 253 && hostNamePattern.test(name)
  return fits
    ? name
    : refuse(`must be a comma-separated list of host names or *.<domain>, without ports; "${part}" is neither`)
}

const hostNames = (value: string): string[] => {
  const parts = value.split(',').map((part) => part.trim())
  return parts.filter((part) => part !== '').map(hostName)
}

function publicUrl(value: string): string {
  const fault = urlFault(value)
  if (fault !== undefined) refuse(fault)
  const { protocol, search, hash } = new URL(value)
  const fits = /^https?:$/.test(protocol) && search === '' && hash === ''
  return fits ? value : refuse('must be http:// or https://, without ? and #')
}

/** Names and ports by which clients reach the service. All are optional. */
export const hostSettings = {
  publicUrl: setting({
    env: 'WARDLINE_PUBLIC_URL',
    unset: undefined,
    meaning: 'Public URL of the service; its host name is allowed in requests',
    parse: publicUrl,
  }),
  allowedHosts: setting({
    env: 'WARDLINE_ALLOWED_HOSTS',
    unset: undefined,
    meaning:
      'Further host names allowed in requests, comma-separated; `*.example.com` means every name below example.com. Default: loopback names and the host of WARDLINE_PUBLIC_URL; if HOST is not a loopback address, also IP addresses and the name of the machine. Other names are refused with 421',
    parse: hostNames,
  }),
  decoyPort: setting({
    env: 'WARDLINE_DECOY_PORT',
    unset: undefined,
    meaning:
      'Port that answers decoy URLs, and nothing else; 0 means any free port. Default: none. See [Decoy URLs](../guide/decoys.md#decoy-urls)',
    parse: integer(0, 65_535),
  }),
  decoyHost: setting({
    env: 'WARDLINE_DECOY_HOST',
    unset: undefined,
    meaning: 'Address that WARDLINE_DECOY_PORT listens on; default: HOST',
    parse: text,
  }),
  decoyUrl: setting({
    env: 'WARDLINE_DECOY_URL',
    unset: undefined,
    meaning:
      'How the world reaches WARDLINE_DECOY_PORT, such as `https://files.example.com`: decoy URLs begin with it. Default: `http://<WARDLINE_DECOY_HOST>:<WARDLINE_DECOY_PORT>`',
    parse: publicUrl,
  }),
  gatewayPort: setting({
    env: 'WARDLINE_GATEWAY_PORT',
    unset: undefined,
    meaning:
      'Port of the [model gateway](../guide/gateway.md), through which agents call their models; 0 means any free port. Default: none',
    parse: integer(0, 65_535),
  }),
  gatewayHost: setting({
    env: 'WARDLINE_GATEWAY_HOST',
    unset: undefined,
    meaning: 'Address that WARDLINE_GATEWAY_PORT listens on; default: HOST',
    parse: text,
  }),
  gatewayFile: setting({
    env: 'WARDLINE_GATEWAY_FILE',
    unset: undefined,
    meaning: 'YAML file of the upstreams of the [model gateway](../guide/gateway.md#the-file); needed with its port',
    parse: text,
  }),
  gatewayFail: setting({
    env: 'WARDLINE_GATEWAY_FAIL',
    unset: 'closed',
    meaning:
      'What the model gateway does [while its database is away](../guide/gateway.md#while-the-database-is-away): `closed` refuses all calls, `open` passes on those of agents that it knows',
    parse: oneOf(['closed', 'open']),
  }),
}
