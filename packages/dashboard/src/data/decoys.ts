import { queryOptions } from '@tanstack/react-query'
import type { HoneypotDetail, ListedHoneypot } from '@wardline/contract'
import { call } from './client.ts'
import { queryKeys } from './query-keys.ts'

/** A honeypot in the API. Its value is only in the response that creates it, and in no query. */
export type Decoy = ListedHoneypot & { details: NonNullable<ListedHoneypot['details']> }
export type DecoyDetail = HoneypotDetail

/** The stream reports hits; this interval covers decoys that another person plants or deletes. */
const refreshMs = 30_000

export const decoysQuery = queryOptions({
  queryKey: queryKeys.decoys,
  queryFn: async ({ signal }) => (await call('listHoneypots', { query: { include: 'details' }, signal })).honeypots,
  select: (decoys) => decoys.filter((decoy): decoy is Decoy => decoy.details !== undefined),
  refetchInterval: refreshMs,
})

export const decoyQuery = (id: string) =>
  queryOptions({
    queryKey: queryKeys.decoy(id),
    queryFn: ({ signal }) => call('getHoneypot', { params: { id }, signal }),
    refetchInterval: refreshMs,
  })

export const ignoresQuery = queryOptions({
  queryKey: queryKeys.decoyIgnores,
  queryFn: async ({ signal }) => (await call('listDecoyIgnores', { signal })).ignores,
  refetchInterval: refreshMs,
})

export const presetsQuery = queryOptions({
  queryKey: queryKeys.decoyPresets,
  queryFn: async ({ signal }) => (await call('listHoneypotPresets', { signal })).presets,
  staleTime: Number.POSITIVE_INFINITY,
})

/** Sorts by latest hit, then by newest decoy. */
export function worstFirst(one: Decoy, other: Decoy): number {
  const hit = Date.parse(other.details.last_hit_at ?? '') || 0
  const before = Date.parse(one.details.last_hit_at ?? '') || 0
  return hit - before || Date.parse(other.createdAt) - Date.parse(one.createdAt)
}

/** Returns the kind of a decoy for people. */
export const kindOf = ({ keyType }: Pick<ListedHoneypot, 'keyType'>): string =>
  keyType === undefined ? 'path' : `${keyType.replaceAll('_', ' ')} key`
