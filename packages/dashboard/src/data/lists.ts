import { queryOptions } from '@tanstack/react-query'
import { call } from './client.ts'
import { queryKeys } from './query-keys.ts'

/** The stream does not report lists; this interval covers changes by another person. */
const refreshMs = 15_000

export const listsQuery = queryOptions({
  queryKey: queryKeys.allLists,
  queryFn: async ({ signal }) => (await call('listLists', { signal })).lists,
  refetchInterval: refreshMs,
})

export const listQuery = (name: string) =>
  queryOptions({
    queryKey: queryKeys.list(name),
    queryFn: ({ signal }) => call('getList', { params: { name }, signal }),
    refetchInterval: refreshMs,
  })

/** Entries in a text, one a line. */
export const entriesOf = (text: string): string[] =>
  text
    .split(/[\r\n]+/)
    .map((line) => line.trim())
    .filter((line) => line !== '')
