import { useQueryClient } from '@tanstack/react-query'
import { type ContainmentAction, type Suspension, WardlineError } from '@wardline/contract'
import { useEffect, useRef, useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { type AgentDetail, noteDetail } from '../data/fleet.ts'
import { queryKeys } from '../data/query-keys.ts'

const pollEveryMs = 250
/** Agents without a control stream poll every 30 seconds. After twice that, only the agent's page keeps refreshing. */
const pollForMs = 60_000

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms))

/** Whether the service saved a request that another operator must confirm. Its message has the deadline. */
export const isForSecondOperator = (fault: unknown): fault is WardlineError =>
  fault instanceof WardlineError && fault.code === 'second_operator_required'

/** Progress of one kill or resume. */
export interface ControlRun {
  isSaved: boolean
  /** The agent's last known state. */
  detail?: AgentDetail
  /** Only for a kill. */
  suspension?: Suspension
  /** Set when a second operator must confirm: the service's sentence, with the deadline. */
  waits?: string
}

/** Suspends or resumes an agent, and polls its state until it is confirmed or the dialog is closed. */
export function useControlRun(action: ContainmentAction, instanceId: string) {
  const client = useQueryClient()
  const changes = [queryKeys.fleet, queryKeys.agent(instanceId), queryKeys.containments]
  const change = useChange({ changes })
  const [run, setRun] = useState<ControlRun>()
  const isShown = useRef(true)
  useEffect(() => {
    isShown.current = true
    return () => {
      isShown.current = false
    }
  }, [])
  const params = { instanceId }
  const note = (facts: Partial<ControlRun>) => setRun((before) => ({ isSaved: false, ...before, ...facts }))

  async function follow(until: number): Promise<void> {
    while (isShown.current && Date.now() < until) {
      // Errors are ignored: the change is already saved, and the service may be briefly unreachable.
      const [detail, listed] = await Promise.all([
        call('getInstance', { params }).catch(() => undefined),
        action === 'suspend' ? call('listSuspensions', { params }).catch(() => undefined) : undefined,
      ])
      const suspension = listed?.suspensions[0]
      if (detail) {
        client.setQueryData(queryKeys.agent(instanceId), detail)
        noteDetail(client, detail)
        note({ detail, ...(suspension ? { suspension } : {}) })
        if (action === 'suspend' ? suspension?.acknowledged_at : detail.control.confirmed) break
      }
      await pause(pollEveryMs)
    }
    for (const queryKey of changes.slice(1)) void client.invalidateQueries({ queryKey })
  }

  function start(reason: string): void {
    note({})
    void change.run(async () => {
      try {
        if (action === 'suspend') await call('killInstance', { params, body: { reason } })
        else await call('resumeInstance', { params })
      } catch (fault) {
        if (!isForSecondOperator(fault)) throw fault
        note({ waits: fault.message })
        return undefined
      }
      note({ isSaved: true })
      void follow(Date.now() + pollForMs)
      return undefined
    })
  }
  return { run, fault: change.fault, start }
}
