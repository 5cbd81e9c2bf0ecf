import { useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { fleetQuery } from '../service/fleet.ts'
import { simulateAttack } from './simulate.ts'

/** Explains the simulation, runs it, and shows each step once it is done. */
export function SimulateDialog({ isAdmin, onClose }: { isAdmin: boolean; onClose(): void }) {
  const client = useQueryClient()
  const [steps, setSteps] = useState<readonly string[]>([])
  const [id, setId] = useState<string>()
  const [fault, setFault] = useState<string>()
  const [state, setState] = useState<'asked' | 'playing' | 'over' | 'removed'>('asked')

  async function play() {
    setState('playing')
    try {
      setId(await simulateAttack((step) => setSteps((before) => [...before, step])))
    } catch (problem) {
      setFault(sentenceOf(problem))
    }
    setState('over')
    await client.invalidateQueries({ queryKey: fleetQuery.queryKey })
  }
  async function remove(instanceId: string) {
    setFault(undefined)
    try {
      await call('deleteInstance', { params: { instanceId } })
      setState('removed')
      await client.invalidateQueries({ queryKey: fleetQuery.queryKey })
    } catch (problem) {
      setFault(sentenceOf(problem))
    }
  }
  return (
    <Dialog label="Simulate an attack" onClose={onClose}>
      <h2>Simulate an attack</h2>
      {state === 'asked' && (
        <>
          <p>
            An agent named <code>simulated-…</code> gets a key and a decoy, meets a prompt injection and touches the
            decoy. All of it goes through the service as if it were real, on this deployment.
          </p>
          <p className="notice">
            The breach counts in the risk score and on the public page, and your alert channels receive it.
          </p>
          {!isAdmin && <p>Making its key needs a key of scope admin.</p>}
        </>
      )}
      <ol className="played" aria-live="polite">
        {steps.map((step) => (
          <li key={step}>
            <span className="ok" aria-hidden="true">
              ✓
            </span>
            {step}
          </li>
        ))}
      </ol>
      <p role="alert" className="fault">
        {fault}
      </p>
      {id !== undefined && state === 'over' && (
        <p className="chips">
          <Link className="button" to="/events" search={{ instance_id: id }}>
            Look at its events
          </Link>
          <Link className="button" to="/fleet/$id" params={{ id }}>
            Open the agent
          </Link>
          <button type="button" onClick={() => void remove(id)}>
            Remove {id}
          </button>
        </p>
      )}
      {state === 'over' && id !== undefined && (
        <p className="quiet">It sends no further heartbeat, so it goes offline in 90 seconds unless you remove it.</p>
      )}
      {state === 'removed' && <p role="status">{id} is removed from the fleet. Its events stay.</p>}
      <div className="foot">
        <button type="button" onClick={onClose}>
          {state === 'asked' ? 'Cancel' : 'Close'} <kbd>Esc</kbd>
        </button>
        {state === 'asked' && (
          <button type="button" className="go" data-first disabled={!isAdmin} onClick={() => void play()}>
            Start
          </button>
        )}
      </div>
    </Dialog>
  )
}
