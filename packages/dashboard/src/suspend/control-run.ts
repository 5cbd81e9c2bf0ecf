import { useQueryClient } from '@tanstack/react-query'
import type { Suspension } from '@wardline/contract'
import { WardlineError } from '@wardline/contract'
import { useEffect, useRef, useState } from 'react'
import { call, sentenceOf } from '../service/client.ts'
import { type AgentDetail, fleetQuery, noteDetail } from '../service/fleet.ts'

const askEveryMs = 250
/** An agent that only polls asks every 30 seconds; after twice that its page goes on asking. */
const askForMs = 60_000

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms))

/** One kill or resume, as far as this browser and the service know of it. */
export interface ControlRun {
  /** Epoch milliseconds of this machine. */
  requestedAt: number
  isStored: boolean
  /** The agent as the service last reported it. */
  detail?: AgentDetail
  /** Of a kill. */
  suspension?: Suspension
  /** Why the service refused. */
  fault?: string
  /** A second operator has to confirm: the sentence says until when. */
  waits?: string
}

/** Suspends or resumes an agent, and follows it until it confirmed or the dialog is closed. */
export function useControlRun(action: 'suspend' | 'resume', instanceId: string) {
  const client = useQueryClient()
  const [run, setRun] = useState<ControlRun>()
  const isShown = useRef(true)
  useEffect(() => {
    isShown.current = true
    return () => {
      isShown.current = false
    }
  }, [])
  const params = { instanceId }
  const note = (facts: Partial<ControlRun>) =>
    setRun((before) => ({ requestedAt: Date.now(), isStored: false, ...before, ...facts }))

  async function request(reason: string): Promise<boolean> {
    note({ requestedAt: Date.now() })
    try {
      if (action === 'suspend') await call('killInstance', { params, body: { reason } })
      else await call('resumeInstance', { params })
      note({ isStored: true })
      return true
    } catch (fault) {
      const waits = fault instanceof WardlineError && fault.code === 'second_operator_required'
      note(waits ? { waits: fault.message } : { fault: sentenceOf(fault) })
      return false
    }
  }

  async function follow(until: number): Promise<void> {
    while (isShown.current && Date.now() < until) {
      // The service may be away for a moment: what was stored stays stored.
      const [detail, listed] = await Promise.all([
        call('getInstance', { params }).catch(() => undefined),
        action === 'suspend' ? call('listSuspensions', { params }).catch(() => undefined) : undefined,
      ])
      const suspension = listed?.suspensions[0]
      if (detail) {
        client.setQueryData(['agent', instanceId], detail)
        noteDetail(client, detail)
        note({ detail, ...(suspension ? { suspension } : {}) })
        const isConfirmed = action === 'suspend' ? suspension?.acknowledged_at : detail.control.confirmed
        if (isConfirmed) return
      }
      await pause(askEveryMs)
    }
  }

  async function start(reason: string): Promise<void> {
    const isStored = await request(reason)
    void client.invalidateQueries({ queryKey: fleetQuery.queryKey })
    if (isStored) await follow(Date.now() + askForMs)
    void client.invalidateQueries({ queryKey: ['agent', instanceId] })
    void client.invalidateQueries({ queryKey: ['containments'] })
  }
  return { run, start }
}
