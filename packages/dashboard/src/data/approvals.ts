import { queryOptions } from '@tanstack/react-query'
import type { ReplyOf } from '@wardline/contract'
import { call } from './client.ts'
import { refreshMs } from './fleet.ts'
import { queryKeys } from './query-keys.ts'

export type Approval = ReplyOf<'getApproval'>
export type Allowance = ReplyOf<'listAllowances'>['allowances'][number]

/** Requests that wait for a person. The stream shows when there is another one. */
export const pendingApprovalsQuery = queryOptions({
  queryKey: queryKeys.pendingApprovals,
  queryFn: ({ signal }) => call('listApprovals', { query: { state: 'pending', limit: '200' }, signal }),
  refetchInterval: refreshMs,
})

export const decidedApprovalsQuery = queryOptions({
  queryKey: queryKeys.decidedApprovals,
  queryFn: ({ signal }) => call('listApprovals', { query: { state: 'decided', limit: '100' }, signal }),
  refetchInterval: 3 * refreshMs,
})

export const approvalQuery = (id: string) =>
  queryOptions({
    queryKey: queryKeys.approval(id),
    queryFn: ({ signal }) => call('getApproval', { params: { id }, signal }),
    refetchInterval: ({ state }) => (state.data && state.data.state !== 'pending' ? false : refreshMs),
  })

export const allowancesQuery = queryOptions({
  queryKey: queryKeys.allowances,
  queryFn: async ({ signal }) => (await call('listAllowances', { signal })).allowances,
  refetchInterval: 3 * refreshMs,
})
