import { useQueryClient } from '@tanstack/react-query'
import { WardlineError } from '@wardline/contract'
import { useEffect, useRef, useState } from 'react'
import { call, sentenceOf } from '../service/client.ts'
import { eachOf } from '../service/each-of.ts'
import { type AgentDetail, fleetQuery, noteDetail } from '../service/fleet.ts'
import { type ControlRun, confirmedAfter } from './stages.ts'

const askEveryMs = 250
/** An agent that only polls asks every 30 seconds; after twice that the pages of the agents go on asking. */
const askForMs = 60_000

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms))

/** Suspends or resumes agents, and follows each until it confirmed or the dialog is closed. */
export function useControlRuns(action: 'suspend' | 'resume') {
  const client = useQueryClient()
  const [runs, setRuns] = useState<ReadonlyMap<string, ControlRun>>()
  const isShown = useRef(true)
  useEffect(() => {
    isShown.current = true
    return () => {
      isShown.current = false
    }
  }, [])

  function note(id: string, facts: Partial<ControlRun>): void {
    setRuns((before = new Map()) => new Map(before).set(id, { requestedAt: Date.now(), ...before.get(id), ...facts }))
  }

  async function request(id: string, reason: string): Promise<boolean> {
    const started = performance.now()
    note(id, { requestedAt: Date.now() })
    try {
      const params = { instanceId: id }
      if (action === 'suspend') await call('killInstance', { params, body: { reason } })
      else await call('resumeInstance', { params })
      note(id, { answeredMs: performance.now() - started })
      return true
    } catch (fault) {
      note(id, { fault: fault instanceof WardlineError ? fault.message : sentenceOf(fault) })
      return false
    }
  }

  async function follow(id: string, until: number): Promise<void> {
    while (isShown.current && Date.now() < until) {
      // The service may be away for a moment: what was stored stays stored.
      const detail: AgentDetail | undefined = await call('getInstance', { params: { instanceId: id } }).catch(
        () => undefined,
      )
      const confirmedMs = detail && confirmedAfter(detail)
      if (detail) client.setQueryData(['agent', id], detail)
      if (detail && confirmedMs !== undefined) {
        noteDetail(client, detail)
        return note(id, { confirmedMs })
      }
      await pause(askEveryMs)
    }
  }

  async function start(ids: readonly string[], reason: string): Promise<void> {
    setRuns(new Map())
    const stored: string[] = []
    await eachOf(ids, async (id) => {
      if (await request(id, reason)) stored.push(id)
    })
    void client.invalidateQueries({ queryKey: fleetQuery.queryKey })
    const until = Date.now() + askForMs
    await eachOf(stored, (id) => follow(id, until))
    for (const id of stored) void client.invalidateQueries({ queryKey: ['agent', id] })
  }
  return { runs, start }
}
