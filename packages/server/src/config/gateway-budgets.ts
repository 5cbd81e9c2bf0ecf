import { limits, Tag } from '@wardline/contract'
import { type Static, Type } from 'typebox'

/** Prices are for a million tokens, in USD, as providers publish them. */
const usd = Type.Number({ minimum: 0, maximum: 100_000 })
/** More than any model reads or writes. */
const tokenCount = Type.Integer({ minimum: 1, maximum: 100_000_000 })

export const PriceEntries = Type.Record(
  Type.String({ pattern: '^[a-z0-9_*-]{1,40}/[!-~]{1,200}$' }),
  Type.Object(
    {
      input: usd,
      output: usd,
      cached: Type.Optional(usd),
      cache_write: Type.Optional(usd),
      context: Type.Optional(tokenCount),
      max_output: Type.Optional(tokenCount),
    },
    { additionalProperties: false },
  ),
  // A call looks at each until one matches.
  { maxProperties: 500, additionalProperties: false },
)

export const BudgetEntries = Type.Array(
  Type.Object(
    {
      name: Type.Optional(Type.String({ pattern: '\\S', minLength: 1, maxLength: limits.name })),
      for: Type.Object(
        {
          tags: Type.Optional(Type.Array(Tag, { minItems: 1, maxItems: limits.tags })),
          instances: Type.Optional(
            Type.Array(Type.String({ pattern: '^([a-z0-9_-]{1,64}|[a-z0-9_-]{0,64}\\*)$' }), {
              minItems: 1,
              maxItems: 100,
            }),
          ),
        },
        { additionalProperties: false, minProperties: 1 },
      ),
      per: Type.Literal('day'),
      each_agent: Type.Optional(Type.Boolean()),
      tokens: Type.Optional(Type.Integer({ minimum: 1, maximum: 1e12 })),
      usd: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1e6 })),
    },
    { additionalProperties: false },
  ),
  // Each that applies to an agent is a row that its calls lock.
  { maxItems: 100 },
)

/** Prices for a million tokens, in USD, and sizes of a model, in tokens. */
export type Price = Static<typeof PriceEntries>[string]

/** The patterns `<upstream>/<model>` in the order of the file: the first that matches a model counts. */
export type Prices = readonly (readonly [pattern: string, price: Price])[]

/** How much agents may use in one day in UTC. */
export interface Budget {
  name: string
  /** Agents with one of these tags, given by operators or keys. */
  tags: readonly string[]
  /** Or of one of these ids, which can end in `*`. */
  instances: readonly string[]
  /** Whether each agent has this budget; else all of them share it. */
  eachAgent: boolean
  /** Null: not limited. At least one of the two is a number. */
  tokens: number | null
  usd: number | null
}

interface Entries {
  budgets?: Static<typeof BudgetEntries>
  prices?: Static<typeof PriceEntries>
}

/** Whether the file has a price for every model, so that money can be counted for every call. */
const hasPriceForAll = (prices: Prices): boolean => prices.some(([pattern]) => pattern === '*/*')

/** Returns budgets, prices, and the faults of them as sentences. */
export function budgetsOf(entries: Entries): { budgets: readonly Budget[]; prices: Prices; faults: string[] } {
  const prices = Object.entries(entries.prices ?? {})
  const faults: string[] = []
  for (const [pattern] of prices) {
    if (/\*(?=.*[^/*])/.test(pattern.replace(/^\*\//, '')) || /^(.+\*|\*.+)\//.test(pattern)) {
      faults.push(`prices: ${pattern} must have * only in place of the upstream or at the end.`)
    }
  }
  const names = new Set<string>()
  const budgets = (entries.budgets ?? []).map((entry): Budget => {
    const { tags = [], instances = [] } = entry.for
    const { tokens = null, usd = null, each_agent: eachAgent = false } = entry
    const name = (entry.name ?? [...tags, ...instances].join(', ')).slice(0, limits.name)
    if (names.has(name)) faults.push(`budgets: two are named ${name}: give each another name.`)
    names.add(name)
    if (tokens === null && usd === null) faults.push(`budgets: ${name} needs tokens or usd.`)
    if (tokens === null && usd !== null && !hasPriceForAll(prices)) {
      faults.push(`budgets: ${name} needs tokens, or prices for '*/*': models without a price would have no limit.`)
    }
    return { name, tags, instances, eachAgent, tokens, usd }
  })
  return { budgets, prices, faults }
}
