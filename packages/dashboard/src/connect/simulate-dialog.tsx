import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useHasScope } from '../data/session.ts'
import { Button, buttonClass } from '../ui/button.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { Notice } from '../ui/panel.tsx'
import { simulateAttack } from './simulate.ts'

/** Explains the simulation, runs it, and shows each step once it is done. */
export function SimulateDialog({ onClose }: { onClose(): void }) {
  const isAdmin = useHasScope('admin')
  const [steps, setSteps] = useState<readonly string[]>([])
  const [id, setId] = useState<string>()
  const { run, isBusy, fault } = useChange({ changes: [queryKeys.fleet] })
  const isNew = steps.length === 0 && !isBusy
  const start = () =>
    run(async () => {
      setId(await simulateAttack((step) => setSteps((before) => [...before, step])))
    })
  const remove = (instanceId: string) =>
    run(async () => {
      await call('deleteInstance', { params: { instanceId } })
      onClose()
      return `${instanceId} removed from the fleet. Its events are kept.`
    })
  return (
    <FormDialog
      title="Simulate an attack"
      submit="Start"
      isReady={isAdmin}
      fault={fault}
      done={
        !isNew && (
          <div className="stack">
            <ol className="stack" aria-live="polite">
              {steps.map((step) => (
                <li key={step}>
                  <span className="ok" aria-hidden="true">
                    ✓
                  </span>{' '}
                  {step}
                </li>
              ))}
            </ol>
            {id !== undefined && (
              <>
                <p className="quiet">The agent goes offline in 90 seconds unless you remove it.</p>
                <p className="chips">
                  <Link className={buttonClass()} to="/events" search={{ instance_id: id }}>
                    Open events
                  </Link>
                  <Link className={buttonClass()} to="/fleet/$id" params={{ id }}>
                    Open agent
                  </Link>
                  <Button disabled={isBusy} onClick={() => void remove(id)}>
                    Remove {id}
                  </Button>
                </p>
              </>
            )}
          </div>
        )
      }
      onSubmit={() => void start()}
      onClose={onClose}
    >
      <p>
        An agent named <code>simulated-…</code> gets a key and a decoy, reads a prompt injection and touches the decoy.
        Every step goes through this deployment like a real attack.
      </p>
      <Notice>
        The breach raises the risk score, appears on the public trust page and is sent to your alert channels.
      </Notice>
      {!isAdmin && <p>Requires a key with scope admin.</p>}
    </FormDialog>
  )
}
