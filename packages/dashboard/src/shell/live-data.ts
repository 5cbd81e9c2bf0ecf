import { useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import { applyLive } from '../data/apply-live.ts'
import { startLive } from '../data/live.ts'

let isApplied = false

/** Keeps the query cache up to date from the stream. */
export function useLiveData(): void {
  const client = useQueryClient()
  useEffect(() => {
    if (!isApplied) applyLive(client)
    isApplied = true
    startLive()
  }, [client])
}
