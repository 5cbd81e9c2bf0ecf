import { queryOptions } from '@tanstack/react-query'
import { eventTypes, type ReplyOf } from '@wardline/contract'
import { dayMs } from '../ui/span.ts'
import { useNow } from '../ui/time.tsx'
import { call } from './client.ts'
import { useEvents } from './event-tail.ts'
import { queryKeys } from './query-keys.ts'

export type ListedPolicy = ReplyOf<'listPolicies'>['policies'][number]
export type Policy = ReplyOf<'getPolicy'>

/** The stream does not report policies; this interval covers changes by another person. */
const refreshMs = 15_000

export const policiesQuery = queryOptions({
  queryKey: queryKeys.policyList,
  queryFn: ({ signal }) => call('listPolicies', { signal }),
  refetchInterval: refreshMs,
})

export const policyQuery = (id: string) =>
  queryOptions({
    queryKey: queryKeys.policy(id),
    queryFn: ({ signal }) => call('getPolicy', { params: { id }, signal }),
    refetchInterval: refreshMs,
  })

/** An earlier version of a policy, which never changes. */
export const policyVersionQuery = (id: string, version: number) =>
  queryOptions({
    queryKey: queryKeys.policyVersion(id, version),
    queryFn: ({ signal }) => call('getPolicy', { params: { id }, query: { version: String(version) }, signal }),
    staleTime: Number.POSITIVE_INFINITY,
  })

/** Checks a policy's text. Stores nothing. */
export const policyCheckQuery = (text: string) =>
  queryOptions({
    queryKey: queryKeys.policyCheck(text),
    queryFn: ({ signal }) => call('lintPolicy', { body: { policy: text }, signal }),
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
  })

const decisionTypes = {
  denied: eventTypes.toolBlocked,
  asked: eventTypes.approvalRequested,
  observed: eventTypes.policyObserved,
} as const

/** Decisions of the last day, as events report them. */
export interface DecisionCounts {
  denied: number
  asked: number
  /** What a policy in mode observe would have denied or asked. */
  observed: number
}

/**
 * Counts the decisions of the last day, by `keyOf` policy id and rule. Of each kind only the newest 200 are counted;
 * `isCut`: there are more.
 */
export function useDecisions(keyOf: (policyId: unknown, rule: unknown) => string | undefined) {
  const lists = {
    denied: useEvents({ event_type: decisionTypes.denied }),
    asked: useEvents({ event_type: decisionTypes.asked }),
    observed: useEvents({ event_type: decisionTypes.observed }),
  }
  const since = useNow() - dayMs
  const counts = new Map<string, DecisionCounts>()
  let isCut = false
  for (const [kind, { query, rows }] of Object.entries(lists)) {
    const recent = rows.filter(({ created_at }) => Date.parse(created_at) >= since)
    isCut ||= query.hasNextPage && recent.length === rows.length
    for (const { metadata } of recent) {
      const key = keyOf(metadata?.policy_id, metadata?.rule)
      if (key === undefined) continue
      const count = counts.get(key) ?? { denied: 0, asked: 0, observed: 0 }
      count[kind as keyof DecisionCounts] += 1
      counts.set(key, count)
    }
  }
  return { counts, isCut }
}

/** The counts in words, such as `2 denied, 14 asked`; undefined if there were none. */
export function decisionsText(counts: DecisionCounts | undefined): string | undefined {
  const { denied = 0, asked = 0, observed = 0 } = counts ?? {}
  const parts = [
    denied > 0 && `${denied} denied`,
    asked > 0 && `${asked} asked`,
    observed > 0 && `${observed} observed`,
  ]
  return parts.filter(Boolean).join(', ') || undefined
}
