import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import type { ReplyOf } from '@wardline/contract'
import { WardlineError } from '@wardline/contract'
import { dayMs, hourMs } from '../ui/span.ts'
import { call } from './client.ts'
import { queryKeys } from './query-keys.ts'

export type ListedRule = ReplyOf<'listRules'>['rules'][number]
export type Rule = ReplyOf<'getRule'>
export type Firing = ReplyOf<'listRuleFirings'>['firings'][number]
/** A position in a rule's text, and the fault there. */
type RuleFault = ReplyOf<'testRule'>['failed'][number]

/** The stream reports firings; this interval covers changes by another person. */
const refreshMs = 15_000

export const rulesQuery = queryOptions({
  queryKey: queryKeys.ruleList,
  queryFn: ({ signal }) => call('listRules', { signal }),
  refetchInterval: refreshMs,
})

export const ruleQuery = (id: string) =>
  queryOptions({
    queryKey: queryKeys.rule(id),
    queryFn: ({ signal }) => call('getRule', { params: { id }, signal }),
    refetchInterval: refreshMs,
  })

/** An earlier version of a rule, which never changes. */
export const versionQuery = (id: string, version: number) =>
  queryOptions({
    queryKey: queryKeys.ruleVersion(id, version),
    queryFn: ({ signal }) => call('getRule', { params: { id }, query: { version: String(version) }, signal }),
    staleTime: Number.POSITIVE_INFINITY,
  })

/** Ranges of the firings chart. The service counts at most 31 days by the hour. */
export const firingDays = [1, 7, 30] as const
export type FiringDays = (typeof firingDays)[number]

/** Start of the range: whole hours, ending with the current one. */
function firingsFrom(days: FiringDays, now: number): number {
  return Math.floor(now / hourMs) * hourMs + hourMs - days * dayMs
}

export const firingsQuery = (id: string, days: FiringDays) =>
  infiniteQueryOptions({
    queryKey: queryKeys.firings(id, days),
    queryFn: async ({ pageParam, signal }) => {
      const from = firingsFrom(days, Date.now())
      const query = { from: new Date(from).toISOString(), ...(pageParam === null ? {} : { before: String(pageParam) }) }
      return { from, ...(await call('listRuleFirings', { params: { id }, query, signal })) }
    },
    initialPageParam: null as number | null,
    getNextPageParam: ({ next_before }) => next_before,
    refetchInterval: refreshMs,
  })

export type RuleMatches = ReplyOf<'explainEvent'>['rules'][number]
export type Match = RuleMatches['events'][number]['matches'][number]

/** What of an event rules matched: of those that it completed, or of the one that is named. */
export const matchesQuery = (seq: number, rule: string | undefined) =>
  queryOptions({
    queryKey: queryKeys.ruleMatches(seq, rule),
    queryFn: ({ signal }) =>
      call('explainEvent', { query: { event: String(seq), ...(rule === undefined ? {} : { rule }) }, signal }),
  })

/** Checks a rule's text: returns its test results, or why it is not a valid rule. Stores nothing. */
export const checkQuery = (text: string) =>
  queryOptions({
    queryKey: queryKeys.ruleCheck(text),
    queryFn: async ({
      signal,
    }): Promise<{ passed: number; faults: RuleFault[]; notes: RuleFault[]; isRule: boolean }> => {
      try {
        const { passed, failed, notes } = await call('testRule', { body: { rule: text }, signal })
        return { passed, faults: failed, notes, isRule: true }
      } catch (problem) {
        const faults = faultsOf(problem)
        if (faults.length === 0) throw problem
        return { passed: 0, faults, notes: [], isRule: false }
      }
    },
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
  })

/** Returns the faults listed in a 400 response. */
export function faultsOf(problem: unknown): RuleFault[] {
  const faults = problem instanceof WardlineError ? problem.answer.faults : undefined
  return Array.isArray(faults) ? (faults as RuleFault[]) : []
}
