import { BlockList, isIP } from 'node:net'
import { keccak_256 } from '@noble/hashes/sha3'

export interface Setting<Value> {
  env: string
  /** Default, as it would be written in the environment; undefined = none. */
  unset: string | undefined
  meaning: string
  /** Throws for an invalid value. The error message never contains a value that may be secret. */
  parse: (text: string) => Value
  secret?: boolean
}

export const setting = <Value>(entry: Setting<Value>) => entry

// Parsers of settings: each converts the text of an environment variable, or throws an error whose message states the
// violated rule.

export const refuse = (rule: string): never => {
  throw new Error(rule)
}

export const text = (value: string) => value
export const integer = (min: number, max: number) => (value: string) => {
  const number = Number(value)
  const isValid = /^\d+$/.test(value) && number >= min && number <= max
  return isValid ? number : refuse(`must be a whole number from ${min} to ${max}`)
}
export const oneOf =
  <const Values extends readonly string[]>(values: Values) =>
  (value: string): Values[number] =>
    values.includes(value) ? value : refuse(`must be one of ${values.join(', ')}`)
/** Parses one or several of the values, separated by commas. */
export const someOf =
  <const Values extends readonly string[]>(values: Values) =>
  (value: string): Values[number][] => {
    const parts = value.split(',').map((part) => part.trim())
    const isValid = parts.every((part) => values.includes(part)) && new Set(parts).size === parts.length
    return isValid ? parts : refuse(`must be one or several of ${values.join(', ')}, separated by commas`)
  }
export const flag = (value: string) => oneOf(['true', 'false'])(value) === 'true'
/** Returns an address in the spelling of EIP-55, whose capital letters are a checksum. */
function checksummed(address: string): string {
  const digits = address.slice(2).toLowerCase()
  const hash = Buffer.from(keccak_256(Buffer.from(digits))).toString('hex')
  const letters = [...digits].map((digit, at) => (Number.parseInt(hash[at]!, 16) >= 8 ? digit.toUpperCase() : digit))
  return `0x${letters.join('')}`
}
/** Digits without capital letters, or with nothing else, have no checksum. */
export function address(value: string): string {
  if (!/^0x[0-9a-fA-F]{40}$/.test(value)) return refuse('must be 0x and 40 hexadecimal digits')
  const hasNone = /^0x([0-9a-f]+|[0-9A-F]+)$/.test(value)
  const right = checksummed(value)
  return hasNone || value === right
    ? value
    : refuse(`has a wrong checksum in its capital letters: compare it with ${right}, and correct it`)
}
/** Parses addresses separated by commas, all of them different. */
export const addresses = (max: number) => (value: string) => {
  const parts = value.split(',').map((part) => address(part.trim()))
  const different = new Set(parts.map((part) => part.toLowerCase())).size
  return different === parts.length && different <= max
    ? parts
    : refuse(`must be at most ${max} different addresses, separated by commas`)
}
export const longSecret = (value: string) => (value.length >= 32 ? value : refuse('must have at least 32 characters'))

export function cidrs(value: string): string[] {
  const parts = value.split(',').map((part) => part.trim())
  const checker = new BlockList()
  for (const part of parts) {
    const [network = '', bits] = part.split('/')
    const family = isIP(network)
    const max = family === 6 ? 128 : 32
    const length = bits === undefined ? max : Number(bits)
    const isValid = family !== 0 && Number.isInteger(length) && length >= 0 && length <= max && bits !== ''
    if (!isValid) refuse(`must be a comma-separated list of addresses or CIDR ranges; "${part}" is neither`)
    checker.addSubnet(network, length, family === 6 ? 'ipv6' : 'ipv4')
  }
  return parts
}

// No spaces, because Redis ACL rules cannot name a channel that contains one.
export const channel = (value: string) =>
  /^[!-~]{1,200}$/.test(value) ? value : refuse('must be 1 to 200 visible characters')
