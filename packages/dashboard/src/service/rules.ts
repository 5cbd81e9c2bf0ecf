import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import type { ReplyOf } from '@wardline/contract'
import { WardlineError } from '@wardline/contract'
import { dayMs, hourMs } from '../parts/span.ts'
import { call } from './client.ts'

export type ListedRule = ReplyOf<'listRules'>['rules'][number]
export type Rule = ReplyOf<'getRule'>
export type Firing = ReplyOf<'listRuleFirings'>['firings'][number]
/** A place in the text of a rule, with what is wrong there. */
export type RuleFault = ReplyOf<'testRule'>['failed'][number]

/** The stream says when a rule fired; this is for what another person changed. */
const refreshMs = 15_000

export const rulesKey = ['rules']

export const rulesQuery = queryOptions({
  queryKey: [...rulesKey, 'list'],
  queryFn: ({ signal }) => call('listRules', { signal }),
  refetchInterval: refreshMs,
})

export const ruleQuery = (id: string) =>
  queryOptions({
    queryKey: [...rulesKey, 'one', id],
    queryFn: ({ signal }) => call('getRule', { params: { id }, signal }),
    refetchInterval: refreshMs,
  })

/** An earlier text; it never changes. */
export const versionQuery = (id: string, version: number) =>
  queryOptions({
    queryKey: ['rule version', id, version],
    queryFn: ({ signal }) => call('getRule', { params: { id }, query: { version: String(version) }, signal }),
    staleTime: Number.POSITIVE_INFINITY,
  })

/** Days that the chart of firings shows: the service counts at most 31 by the hour. */
export const firingDays = [1, 7, 30] as const
export type FiringDays = (typeof firingDays)[number]

/** Whole hours that end with the present one. */
function firingsFrom(days: FiringDays, now: number): number {
  return Math.floor(now / hourMs) * hourMs + hourMs - days * dayMs
}

export const firingsQuery = (id: string, days: FiringDays) =>
  infiniteQueryOptions({
    queryKey: [...rulesKey, 'firings', id, days],
    queryFn: async ({ pageParam, signal }) => {
      const from = firingsFrom(days, Date.now())
      const query = { from: new Date(from).toISOString(), ...(pageParam === null ? {} : { before: String(pageParam) }) }
      return { from, ...(await call('listRuleFirings', { params: { id }, query, signal })) }
    },
    initialPageParam: null as number | null,
    getNextPageParam: ({ next_before }) => next_before,
    refetchInterval: refreshMs,
  })

/** What the service says of a text: its tests, or why it is no rule. Nothing is stored. */
export const checkQuery = (text: string) =>
  queryOptions({
    queryKey: ['rule check', text],
    queryFn: async ({ signal }): Promise<{ passed: number; faults: RuleFault[]; isRule: boolean }> => {
      try {
        const { passed, failed } = await call('testRule', { body: { rule: text }, signal })
        return { passed, faults: failed, isRule: true }
      } catch (problem) {
        const faults = faultsOf(problem)
        if (faults.length === 0) throw problem
        return { passed: 0, faults, isRule: false }
      }
    },
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
  })

/** The places that an answer 400 names. */
export function faultsOf(problem: unknown): RuleFault[] {
  const faults = problem instanceof WardlineError ? problem.answer.faults : undefined
  return Array.isArray(faults) ? (faults as RuleFault[]) : []
}
