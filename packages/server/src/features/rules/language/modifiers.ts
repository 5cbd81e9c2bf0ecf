import { BlockList, isIP } from 'node:net'
import { ruleLimits } from '@wardline/contract'
import { type Cost, noCost } from './cost.ts'
import { shown } from './fault.ts'
import type { ListIndex } from './list-index.ts'
import { compileExpression } from './regular-expression.ts'
import { type Anchor, readWildcards } from './wildcards.ts'

/** Tests one value of a field: lower-case text, or the unchanged value if `looksAtCase` is true for its modifier. */
export interface Test {
  (given: string | number | boolean): boolean
  /** Whether it passes for an element of a list, where this is found faster than element by element. */
  inList?: (list: ListIndex) => boolean
  /** Maximum characters that it reads, of all elements of a list together; undefined: all. */
  reads?: number | undefined
  /** Cost in addition to a lookup. */
  cost?: Cost
}

/** Builds the test for one value of a rule, or returns why it cannot. `flags` are those of `re`. */
type Modifier = (value: unknown, flags: ReadonlySet<string>) => Test | string

const isScalar = (value: unknown): value is string | number | boolean =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'

function searching({ matches, signs, longest }: ReturnType<typeof readWildcards>): Test {
  const test: Test = (given) => matches(given as string)
  test.inList = (list) => list.mayContain(longest) && list.scalars.some(test)
  test.cost = { ...noCost, compared: 1, signs }
  return test
}

const anchored =
  (anchor: Anchor): Modifier =>
  (value) => {
    if (!isScalar(value)) return `${anchor} needs text.`
    return searching(readWildcards(String(value), anchor))
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
export function inNetworks(values: readonly unknown[]): Test | string {
  const networks = new BlockList()
  for (const value of values) {
    const [, address = '', bits = ''] = /^([0-9a-fA-F.:]+)\/(\d{1,3})$/.exec(String(value)) ?? []
    const version = isIP(address)
    if (version === 0 || Number(bits) > (version === 4 ? 32 : 128)) {
      return `cidr needs a network such as 10.0.0.0/8, not ${shown(value)}.`
    }
    networks.addSubnet(address, Number(bits), version === 4 ? 'ipv4' : 'ipv6')
  }
  const test: Test = (given) => {
    const text = String(given)
    const family = isIP(text)
    return family !== 0 && networks.check(text, family === 4 ? 'ipv4' : 'ipv6')
  }
  test.cost = { ...noCost, networks: 1 }
  return test
}

/** Modifiers that compare. To add one, write a function and list it here. */
export const modifiers: Readonly<Record<string, Modifier>> = {
  contains: anchored('contains'),
  startswith: anchored('startswith'),
  endswith: anchored('endswith'),
  re(value, flags) {
    if (typeof value !== 'string') return 're needs text.'
    const expression = compileExpression(value, flags)
    if (typeof expression === 'string') return expression
    const { matches, reads, size } = expression
    const test: Test = (given) => matches(String(given))
    test.reads = reads
    test.cost = { ...noCost, expressions: 1, sizes: size }
    return test
  },
  cidr: (value) => inNetworks([value]),
  gt: compared('gt', (given, limit) => given > limit),
  gte: compared('gte', (given, limit) => given >= limit),
  lt: compared('lt', (given, limit) => given < limit),
  lte: compared('lte', (given, limit) => given <= limit),
}

const caseless = [undefined, 'contains', 'startswith', 'endswith']

/** Whether tests of a modifier expect unchanged values; the others expect lower-case text. */
export const looksAtCase = (modifier: string | undefined): boolean => !caseless.includes(modifier)

/** Builds the test without a modifier: equal text, ignoring case, with the wildcards `*` and `?`. */
export function equalTo(value: unknown): { exact: string } | Test | string {
  if (!isScalar(value)) return 'A value is text, a number, true, false or null.'
  if (typeof value !== 'string') return { exact: String(value).toLowerCase() }
  if (value.length > ruleLimits.valueLength) return `A value has at most ${ruleLimits.valueLength} characters.`
  const read = readWildcards(value)
  return read.exact === undefined ? searching(read) : { exact: read.exact }
}

/** A parsed chain of modifiers. */
interface Chain {
  modifier: string | undefined
  isAll: boolean
  flags: ReadonlySet<string>
}

const known = [...Object.keys(modifiers), 'exists', 'all'].join(', ')
const expressionFlags = ['i', 'm', 's']

/** Parses a chain of modifiers, or returns why it is invalid. */
export function readChain(names: readonly string[]): Chain | string {
  let modifier: string | undefined
  let isAll = false
  const flags = new Set<string>()
  for (const name of names) {
    if (name === 'all') isAll = true
    else if (modifier === 're' && expressionFlags.includes(name)) flags.add(name)
    else if (name !== 'exists' && !Object.hasOwn(modifiers, name)) {
      return `The modifier ${shown(name)} is not supported; supported are ${known}.`
    } else if (modifier !== undefined) return `The modifiers ${modifier} and ${name} cannot be combined.`
    else modifier = name
  }
  const isSingle = modifier === 'exists' || /^[gl]te?$/.test(modifier ?? '')
  return isAll && isSingle ? `The modifiers ${modifier} and all cannot be combined.` : { modifier, isAll, flags }
}
