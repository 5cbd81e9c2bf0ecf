import type { Upstream } from '../../config/gateway.ts'
import type { Metrics } from '../../metrics.ts'
import { modelOf } from './allowed-models.ts'
import type { ModelBudgets } from './budgets.ts'
import type { CallBody } from './call-body.ts'
import { chargeOf, estimate, priceOf, reservationOf } from './charges.ts'
import type { Exchange, ExchangeResult } from './exchange.ts'
import { Refusal } from './formats.ts'

interface Metered {
  instanceId: string
  method: string | undefined
  upstream: Upstream
  /** Below the name of the upstream. */
  path: string
  body: CallBody
  bytes: number
}

/** What an event says of the price of a call. */
export interface Cost {
  cost_usd?: number
  /** The provider did not count the call, or not all of it. */
  is_estimated?: true
}

/** What a call becomes in events and metrics, by how it ended. */
interface Meter {
  /** Pattern of the model's price in the file; undefined: it has none. */
  price: string | undefined
  costOf(result: ExchangeResult): Cost
}

/** Providers do not charge for lists of models, and for counting tokens. */
const isFree = ({ method, path }: Metered) => method === 'GET' || /[/:]count_?tokens$/i.test(path)

/**
 * Reserves what a call can use at most, and charges what it used once it ended. Returns what it costs, by how it ends.
 * Throws AppError `quota_exceeded`, or a Refusal if the body of a call with a budget cannot be read.
 */
export async function meter(
  budgets: Pick<ModelBudgets, 'prices' | 'reserve' | 'settle'>,
  exchange: Pick<Exchange, 'ended'>,
  call: Metered,
): Promise<Meter> {
  if (isFree(call)) return { price: undefined, costOf: () => ({}) }
  const [pattern, price] = priceOf(budgets.prices, call.upstream.name, modelOf(call) ?? '') ?? []
  const expected = estimate(call.bytes, call.body, price)
  const reservation = await budgets.reserve(call.instanceId, reservationOf(expected))
  if (reservation) {
    // However the call ends, also by the refusal below.
    void exchange.ended.then((result) => budgets.settle(reservation, chargeOf(expected, result)))
    const { fault } = call.body
    if (fault !== undefined) throw new Refusal(400, `The body ${fault}, so the gateway cannot count the call.`)
  }
  const costOf = (result: ExchangeResult): Cost => {
    const { nanoUsd, isEstimated } = chargeOf(expected, result)
    return { ...(price ? { cost_usd: nanoUsd / 1e9 } : {}), ...(isEstimated && price ? { is_estimated: true } : {}) }
  }
  return { price: pattern, costOf }
}

/** Counts a call that was passed on. Models are callers' texts, so the label is the price that one has. */
export function countCall(
  metrics: Metrics,
  upstream: string,
  price = 'none',
  result: ExchangeResult,
  cost: Cost,
): void {
  const { end, status, usage } = result
  const isError = end === 'refused' || (end === 'complete' && (status ?? 0) >= 400)
  metrics.gatewayCalls.inc({ upstream, outcome: isError ? 'upstream_error' : end })
  for (const direction of ['input', 'output'] as const) {
    metrics.gatewayTokens.inc({ upstream, price, direction }, usage[`${direction}_tokens`] ?? 0)
  }
  if (cost.cost_usd !== undefined) metrics.gatewayCost.inc({ upstream, price }, cost.cost_usd)
}
