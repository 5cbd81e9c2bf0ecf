import { useQueryClient } from '@tanstack/react-query'
import type { Suspension } from '@wardline/contract'
import { WardlineError } from '@wardline/contract'
import { useEffect, useRef, useState } from 'react'
import { call, sentenceOf } from '../service/client.ts'
import { type AgentDetail, fleetQuery, noteDetail } from '../service/fleet.ts'

const askEveryMs = 250
/**
 * Agents that only poll do so every 30 seconds. After twice that, the dialog stops and the agent's page continues to
 * refresh.
 */
const askForMs = 60_000

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms))

/** Progress of one kill or resume. */
export interface ControlRun {
  /** Epoch milliseconds by this browser's clock. */
  requestedAt: number
  isStored: boolean
  /** The agent's last known state. */
  detail?: AgentDetail
  /** Only for a kill. */
  suspension?: Suspension
  /** Error message of the service's refusal. */
  fault?: string
  /** Set when a second operator has to confirm: the service's sentence, with the deadline. */
  waits?: string
}

/** Suspends or resumes an agent, and polls its state until it is confirmed or the dialog is closed. */
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
      // Errors are ignored: the change is already stored, and the service may be briefly unreachable.
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
