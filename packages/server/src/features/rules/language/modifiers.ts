import { BlockList, isIP } from 'node:net'
import { ruleLimits } from '@wardline/contract'
import { type Cost, noCost } from './cost.ts'
import { type DatePart, dateParts } from './date-part.ts'
import { shown } from './fault.ts'
import type { ListIndex } from './list-index.ts'
import { readText } from './read-text.ts'
import { compileExpression } from './regular-expression.ts'
import { formNames } from './value-forms.ts'
import { type Anchor, readWildcards } from './wildcards.ts'

/** Tests one value of a field: lower-case text, or the unchanged value if `looksAtCase` is true for its modifier. */
export interface Test {
  (given: string | number | boolean): boolean
  /** Whether it passes for an element of a list, where this is found faster than element by element. */
  inList?: (list: ListIndex) => boolean
  /** Cost in addition to a lookup. */
  cost?: Cost
}

/** Builds the test for one value of a rule, or returns why it cannot. `flags` are those of `re`. */
type Modifier = (value: unknown, chain: Pick<Chain, 'flags' | 'isCased'>) => Test | string

const isScalar = (value: unknown): value is string | number | boolean =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'

function searching({ matches, signs, longest }: ReturnType<typeof readWildcards>): Test {
  const test: Test = (given) => matches(String(given))
  test.inList = (list) => list.mayContain(longest) && list.scalars.some(test)
  test.cost = { ...noCost, compared: 1, signs }
  return test
}

const anchored =
  (anchor: Anchor): Modifier =>
  (value, { isCased }) => {
    if (!isScalar(value)) return `${anchor} needs text.`
    return searching(readWildcards(String(value), anchor, isCased))
  }

const compared =
  (name: string, holds: (given: number, limit: number) => boolean): Modifier =>
  (value) => {
    if (typeof value !== 'number') return `${name} needs a number without quotes.`
    const test: Test = (given) => typeof given === 'number' && holds(given, value)
    test.inList = ({ range }) => range.some((given) => holds(given, value))
    return test
  }

/** Tests for one of several networks: an address is parsed once for all of them. */
function inNetworks(values: readonly unknown[]): Test | string {
  // One list for each family: the one of IPv6 would take IPv4 addresses for ::ffff:0:0/96.
  const networks = { ipv4: new BlockList(), ipv6: new BlockList() }
  for (const value of values) {
    const [, address = '', bits = ''] = /^([0-9a-fA-F.:]+)\/(\d{1,3})$/.exec(String(value)) ?? []
    const version = isIP(address)
    if (version === 0 || Number(bits) > (version === 4 ? 32 : 128)) {
      return `cidr needs a network such as 10.0.0.0/8, not ${shown(value)}.`
    }
    const family = version === 4 ? 'ipv4' : 'ipv6'
    networks[family].addSubnet(address, Number(bits), family)
  }
  const test: Test = (given) => {
    const text = String(given)
    const family = isIP(text) === 4 ? 'ipv4' : 'ipv6'
    return isIP(text) !== 0 && networks[family].check(text, family)
  }
  test.cost = { ...noCost, networks: 1 }
  return test
}

/** Measured with a list of 3,300 names that are not ASCII, which 16 KiB hold: 2.5 ms. */
const hostCost: Cost = { ...noCost, networks: 8 }

/** A name has at most 253 characters, in percent-encoding three times as many. Parsing 16 KiB as one takes 200 ms. */
const maxHost = 253

/** Returns the host of an address, of `host:port` or of an address of mail, in the form of the URL standard. */
function hostOf(text: string): string | undefined {
  const rest = text.replace(/^(?:[a-z][a-z0-9+.-]*:)?\/\//i, '')
  const authority = rest.split(/[/?#\\]/, 1)[0]!
  const host = authority.slice(authority.lastIndexOf('@') + 1)
  if (host.length > maxHost * (/[^\0-\x7f]/.test(host) ? 1 : 3) + ':65535'.length) return undefined
  return URL.parse(`http://${isIP(host) === 6 ? `[${host}]` : host}`)?.hostname.replace(/\.$/, '')
}

/** Tests for one of several hosts, each for itself or with all hosts under it. */
const inHosts =
  (modifier: 'host' | 'domain') =>
  (values: readonly unknown[]): Test | string => {
    const hosts = new Set<string>()
    for (const value of values) {
      const host = typeof value === 'string' && !/[/?#@*\s]/.test(value) ? hostOf(value) : undefined
      if (!host || (modifier === 'domain' && /^\[|^[\d.]+$/.test(host))) {
        return `${modifier} needs the name of a ${modifier} such as files.example, not ${shown(value)}.`
      }
      hosts.add(host)
    }
    const test: Test = (given) => {
      const host = hostOf(String(given))
      if (host === undefined || modifier === 'host') return host !== undefined && hosts.has(host)
      for (let name = host; ; name = name.slice(name.indexOf('.') + 1)) {
        if (hosts.has(name)) return true
        if (!name.includes('.')) return false
      }
    }
    test.cost = hostCost
    return test
  }

/** Modifiers whose list of values is one test, because the given value is parsed once for all of them. */
export const listModifiers: Readonly<Record<string, (values: readonly unknown[]) => Test | string>> = {
  cidr: inNetworks,
  host: inHosts('host'),
  domain: inHosts('domain'),
}

/** Modifiers that compare. To add one, write a function and list it here. */
export const modifiers: Readonly<Record<string, Modifier>> = {
  contains: anchored('contains'),
  startswith: anchored('startswith'),
  endswith: anchored('endswith'),
  re(value, { flags }) {
    if (typeof value !== 'string') return 're needs text.'
    const expression = compileExpression(value, flags)
    if (typeof expression === 'string') return expression
    const { matches, passes, sets } = expression
    const test: Test = (given) => matches(readText(String(given)))
    test.inList = (list) => matches(list.text)
    test.cost = { ...noCost, passes, sets }
    return test
  },
  cidr: (value) => listModifiers.cidr!([value]),
  host: (value) => listModifiers.host!([value]),
  domain: (value) => listModifiers.domain!([value]),
  gt: compared('gt', (given, limit) => given > limit),
  gte: compared('gte', (given, limit) => given >= limit),
  lt: compared('lt', (given, limit) => given < limit),
  lte: compared('lte', (given, limit) => given <= limit),
}

const ofText = [undefined, 'contains', 'startswith', 'endswith']
const caseless = [...ofText, 'host', 'domain']

/** Whether the tests expect unchanged values; the others expect lower-case text. */
export const looksAtCase = ({ modifier, isCased }: Chain): boolean => isCased || !caseless.includes(modifier)

/** Builds the test without a modifier: equal text with the wildcards `*` and `?`, ignoring case unless `cased`. */
export function equalTo(value: unknown, { isCased }: Pick<Chain, 'isCased'>): { exact: string } | Test | string {
  if (!isScalar(value)) return 'A value is text, a number, true, false or null.'
  if (typeof value !== 'string') return { exact: String(value) }
  if (value.length > ruleLimits.valueLength) return `A value has at most ${ruleLimits.valueLength} characters.`
  const read = readWildcards(value, undefined, isCased)
  return read.exact === undefined ? searching(read) : { exact: read.exact }
}

/** A parsed chain of modifiers. */
export interface Chain {
  /** How a value is compared; undefined: equal text. */
  modifier: string | undefined
  /** Forms to compare instead of the value, in the order in which they are applied. */
  forms: string[]
  /** Part of the field's date that is compared. */
  part: DatePart | undefined
  isAll: boolean
  isCased: boolean
  /** Whether the field must have another value. */
  isNegated: boolean
  /** Whether names of lists in the value stand for their entries. */
  isExpanded: boolean
  /** Whether the value is the name of a field to compare with. */
  isReference: boolean
  flags: ReadonlySet<string>
}

const known = [
  ...Object.keys(modifiers),
  'exists',
  'all',
  'cased',
  'neq',
  'expand',
  'fieldref',
  ...formNames,
  ...dateParts,
].join(', ')
const expressionFlags = ['i', 'm', 's']

/** Parses a chain of modifiers, or returns why it is invalid. */
export function readChain(names: readonly string[]): Chain | string {
  const chain: Chain = {
    modifier: undefined,
    forms: [],
    part: undefined,
    isAll: names.includes('all'),
    isCased: names.includes('cased'),
    isNegated: names.includes('neq'),
    isExpanded: names.includes('expand'),
    isReference: names.includes('fieldref'),
    flags: new Set(names.filter((name) => names.includes('re') && expressionFlags.includes(name))),
  }
  for (const name of names) {
    if (['all', 'cased', 'neq', 'expand', 'fieldref'].includes(name) || chain.flags.has(name)) continue
    if (formNames.includes(name)) chain.forms.push(name)
    else if ((dateParts as readonly string[]).includes(name) && chain.part === undefined) chain.part = name as DatePart
    else if (name !== 'exists' && !Object.hasOwn(modifiers, name)) {
      return `The modifier ${shown(name)} is not supported; supported are ${known}.`
    } else if (chain.modifier !== undefined) {
      return `The modifiers ${chain.modifier} and ${name} cannot be combined.`
    } else chain.modifier = name
  }
  const fault = combinationFault(chain)
  return fault === undefined ? chain : `The modifiers ${fault[0]} and ${fault[1]} cannot be combined.`
}

/** Returns two modifiers that contradict each other. */
function combinationFault(chain: Chain): [string, string] | undefined {
  const { modifier, forms, part, isAll, isCased, isNegated, isExpanded, isReference } = chain
  const isNumeric = /^[gl]te?$/.test(modifier ?? '')
  const isOfText = ofText.includes(modifier) && part === undefined
  if (isAll && (modifier === 'exists' || isNumeric)) return [modifier!, 'all']
  if (isAll && isNegated) return ['neq', 'all']
  if (isNegated && (modifier === 'exists' || isNumeric)) return [modifier!, 'neq']
  if (forms.length > 0 && !isOfText) return [forms[0]!, modifier ?? part!]
  if (isCased && !isOfText) return ['cased', modifier ?? part!]
  if (isExpanded && !isOfText && !Object.hasOwn(listModifiers, modifier ?? '')) return [modifier ?? part!, 'expand']
  if (part !== undefined && modifier !== undefined && !isNumeric) return [part, modifier]
  const beside = modifier ?? part ?? forms[0] ?? (isAll ? 'all' : isExpanded ? 'expand' : undefined)
  return isReference && beside !== undefined ? ['fieldref', beside] : undefined
}
