import { useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import { applyLive } from '../service/apply-live.ts'
import { startLive } from '../service/live.ts'

let isApplied = false

/** Keeps what is shown current by the stream. */
export function useLiveData(): void {
  const client = useQueryClient()
  useEffect(() => {
    if (!isApplied) applyLive(client)
    isApplied = true
    startLive()
  }, [client])
}
