import { skipToken, useQuery, useQueryClient } from '@tanstack/react-query'
import { type InstanceHistory, limits } from '@wardline/contract'
import { useEffect } from 'react'
import { call } from './client.ts'
import { queryKeys } from './query-keys.ts'

/** The service stores counts once a minute. */
const freshMs = 60_000
/** Delay before reading, so that rows that only scroll past are not requested. */
const restMs = 150

/**
 * Keeps the last hour of the visible agents up to date, with one request for all that are missing, whatever the fleet's
 * size.
 */
export function useHours(ids: readonly string[]): void {
  const client = useQueryClient()
  const named = ids.slice(0, limits.listedIds).join(',')
  useEffect(() => {
    async function read(): Promise<void> {
      const due = named
        .split(',')
        .filter(
          (id) => id !== '' && Date.now() - (client.getQueryState(queryKeys.hour(id))?.dataUpdatedAt ?? 0) > freshMs,
        )
        .join(',')
      if (due === '') return
      const query = { ids: due, include: 'hour', limit: String(limits.listedIds) } as const
      // A failure already shows in the fleet list, which is read continually.
      const reply = await client
        .fetchQuery({ queryKey: queryKeys.hours(due), queryFn: () => call('listInstances', { query }), gcTime: 0 })
        .catch(() => undefined)
      for (const { id, history } of reply?.instances ?? [])
        if (history) client.setQueryData(queryKeys.hour(id), history)
    }
    const soon = setTimeout(() => void read(), restMs)
    const again = setInterval(() => void read(), freshMs)
    return () => {
      clearTimeout(soon)
      clearInterval(again)
    }
  }, [client, named])
}

export const useHour = (id: string): InstanceHistory | undefined =>
  useQuery<InstanceHistory>({ queryKey: queryKeys.hour(id), queryFn: skipToken }).data
