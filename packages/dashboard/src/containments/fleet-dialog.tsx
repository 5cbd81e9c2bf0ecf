import { useQuery, useQueryClient } from '@tanstack/react-query'
import {
  type ContainmentAction,
  type ContainmentPlan,
  type ContainmentSelector,
  secondOperatorMinutes,
  WardlineError,
} from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { type FormEvent, type ReactNode, useId, useRef, useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { fleetQuery } from '../service/fleet.ts'
import { ReasonField } from '../suspend/reason-field.tsx'
import '../suspend/suspend.css'
import './containments.css'
import { Plan } from './plan.tsx'
import { Progress } from './progress.tsx'

interface FleetDialogProps {
  action: ContainmentAction
  /** Undefined while nothing is chosen. */
  selector: ContainmentSelector | undefined
  /** Content above the plan, such as fields that choose the selector. */
  children?: ReactNode
  /** Prefilled beginning of the reason. */
  because?: string
  onClose(): void
}

/** A dry run changes nothing and stores no reason, but the API requires one. */
const planReason = 'Dry run'

async function readPlan(action: ContainmentAction, selector: ContainmentSelector): Promise<ContainmentPlan> {
  const reply = await call('createContainment', { body: { action, selector, reason: planReason, dry_run: true } })
  if (!('dry_run' in reply)) throw new Error('The service did not answer with a plan.')
  return reply
}

type Outcome = { kind: 'started'; id: string } | { kind: 'waits' | 'refused'; sentence: string }

/**
 * Suspends or resumes several agents as one containment: shows the plan, asks for the confirmation text, then shows the
 * progress.
 */
export function FleetDialog({ action, selector, children, because = '', onClose }: FleetDialogProps) {
  const client = useQueryClient()
  const form = useRef<HTMLFormElement>(null)
  const hint = useId()
  const [reason, setReason] = useState(because)
  const [typed, setTyped] = useState('')
  const [isTwoPerson, setTwoPerson] = useState(false)
  const [isBusy, setBusy] = useState(false)
  const [outcome, setOutcome] = useState<Outcome>()
  const {
    data: plan,
    error,
    refetch,
  } = useQuery({
    queryKey: ['plan', action, selector],
    queryFn: () => readPlan(action, selector ?? {}),
    enabled: selector !== undefined && outcome?.kind !== 'started',
    gcTime: 0,
    retry: false,
  })
  const isSuspend = action === 'suspend'
  const verb = isSuspend ? 'Suspend' : 'Resume'
  const title = plan ? `${verb} ${counted(plan.agents, 'agent')}` : `${verb} agents`
  const isTyped = plan !== undefined && typed.trim() === plan.confirm
  const isReady = isTyped && plan.agents > 0 && reason.trim() !== '' && !isBusy && selector !== undefined

  async function submit(event: FormEvent) {
    event.preventDefault()
    if (!isReady) return
    setBusy(true)
    try {
      const body = { action, selector, reason: reason.trim(), confirm: typed.trim() }
      const reply = await call('createContainment', { body: isTwoPerson ? { ...body, two_person: true } : body })
      if ('id' in reply) setOutcome({ kind: 'started', id: reply.id })
    } catch (fault) {
      const waits = fault instanceof WardlineError && fault.code === 'second_operator_required'
      setOutcome({ kind: waits ? 'waits' : 'refused', sentence: sentenceOf(fault) })
      // The number of agents may have changed.
      if (!waits) await refetch()
    }
    setBusy(false)
    void client.invalidateQueries({ queryKey: ['containments'] })
    void client.invalidateQueries({ queryKey: fleetQuery.queryKey })
  }
  const isOver = outcome?.kind === 'started' || outcome?.kind === 'waits'
  return (
    <Dialog label={title} onClose={onClose}>
      <form ref={form} onSubmit={submit}>
        <h2>{title}</h2>
        {outcome?.kind === 'started' && <Progress id={outcome.id} />}
        {outcome?.kind === 'waits' && (
          <p role="alert">
            <HostileText text={outcome.sentence} max={600} />
          </p>
        )}
        {!isOver && (
          <>
            {children}
            {error && (
              <p role="alert" className="fault">
                <HostileText text={sentenceOf(error)} max={600} />
              </p>
            )}
            {selector !== undefined && !plan && !error && <p className="quiet">Reading whom this reaches…</p>}
            {plan && !error && (
              <>
                <Plan plan={plan} />
                {plan.second_operator && (
                  <p className="notice">
                    A second operator has to confirm this within {secondOperatorMinutes} minutes, with another key.
                  </p>
                )}
                <ReasonField
                  action={action}
                  reason={reason}
                  onReason={setReason}
                  onSubmit={() => form.current?.requestSubmit()}
                  isFirst={!children}
                />
                {(isSuspend || !plan.second_operator) && (
                  <label className="choice">
                    <input
                      type="checkbox"
                      checked={isTwoPerson}
                      onChange={({ target }) => setTwoPerson(target.checked)}
                    />
                    {isSuspend ? 'Resuming them takes two operators' : 'A second operator has to confirm'}
                  </label>
                )}
                <label className="field">
                  <span>
                    Type <b>{plan.confirm}</b> to go on
                  </span>
                  <input
                    value={typed}
                    autoComplete="off"
                    spellCheck={false}
                    maxLength={40}
                    aria-describedby={hint}
                    onChange={({ target }) => setTyped(target.value)}
                  />
                </label>
                <p id={hint} role="status" className="warning">
                  {typed !== '' && !isTyped ? `That is not "${plan.confirm}": nothing is sent.` : ''}
                </p>
                {outcome?.kind === 'refused' && (
                  <p role="alert" className="fault">
                    <HostileText text={outcome.sentence} max={600} />
                  </p>
                )}
              </>
            )}
          </>
        )}
        <div className="foot">
          <button type="button" onClick={onClose}>
            {isOver ? 'Close' : 'Cancel'} <kbd>Esc</kbd>
          </button>
          {!isOver && (
            <button type="submit" className={isSuspend ? 'act' : 'go'} disabled={!isReady}>
              {title} <kbd>⌘↵</kbd>
            </button>
          )}
        </div>
      </form>
    </Dialog>
  )
}
