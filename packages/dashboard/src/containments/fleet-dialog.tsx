import { useQuery } from '@tanstack/react-query'
import {
  type AgentSelector,
  type ContainmentAction,
  type ContainmentPlan,
  secondOperatorMinutes,
} from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { type ReactNode, useId, useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { AgentLinks } from '../parts/agent-link.tsx'
import { isForSecondOperator } from '../suspend/control-run.ts'
import { EnforcementPoints, ReachItem, ReachList } from '../suspend/reach.tsx'
import { ReasonField } from '../suspend/reason-field.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { Check, TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Notice } from '../ui/panel.tsx'
import { commandKey } from '../ui/shortcuts.ts'
import { Progress } from './progress.tsx'

const unreachedReasons = [
  ['offline', 'offline', 'applies when they reconnect'],
  ['old_sdk', 'that never confirmed a control message', 'old SDK or another client: may not listen, cannot be proven'],
  ['no_control_stream', 'without a control stream', 'receive it with their next poll, within 30 seconds'],
] as const
const maxNamed = 5

/** Shows, before any change, which agents it would reach, how, and which it would not. */
function Plan({ plan: { action, paths, unreached, unreached_counts } }: { plan: ContainmentPlan }) {
  return (
    <ReachList>
      {paths.stream > 0 && (
        <ReachItem isReached what={`${counted(paths.stream, 'agent')} by control stream`} how="immediately" />
      )}
      {unreachedReasons.map(([reason, what, how]) => {
        const count = unreached_counts[reason]
        const ids = unreached.filter((agent) => agent.reason === reason).map(({ id }) => id)
        return (
          count > 0 && (
            <ReachItem
              key={reason}
              otherwise="Not reached at once"
              what={`${counted(count, 'agent')} ${what}`}
              how={how}
            >
              <AgentLinks ids={ids} count={count} max={maxNamed} />
            </ReachItem>
          )
        )
      })}
      <EnforcementPoints action={action} />
      {action === 'suspend' && (
        <ReachItem what="Commands that are running already" how="not reached: end them on their hosts" />
      )}
    </ReachList>
  )
}

/** A dry run changes nothing and saves no reason, but the API requires one. */
const planReason = 'Dry run'

async function readPlan(action: ContainmentAction, selector: AgentSelector): Promise<ContainmentPlan> {
  const reply = await call('createContainment', { body: { action, selector, reason: planReason, dry_run: true } })
  if (!('dry_run' in reply)) throw new Error('The service returned no plan.')
  return reply
}

interface FleetDialogProps {
  action: ContainmentAction
  /** Undefined while nothing is chosen. */
  selector: AgentSelector | undefined
  /** Content above the plan, such as fields that choose the selector. */
  children?: ReactNode
  /** Prefilled beginning of the reason. */
  because?: string
  onClose(): void
}

/** The plan, the requests of a containment, and their outcome. */
function useContainment(action: ContainmentAction, selector: AgentSelector | undefined) {
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.containments, queryKeys.fleet] })
  const [done, setDone] = useState<ReactNode>()
  const plan = useQuery({
    queryKey: queryKeys.plan(action, selector),
    queryFn: () => readPlan(action, selector ?? {}),
    enabled: selector !== undefined && done === undefined,
    gcTime: 0,
    retry: false,
  })
  const start = (body: { reason: string; confirm: string; two_person?: true }) =>
    run(async () => {
      try {
        const reply = await call('createContainment', { body: { action, selector: selector ?? {}, ...body } })
        if ('id' in reply) setDone(<Progress id={reply.id} />)
      } catch (problem) {
        if (!isForSecondOperator(problem)) {
          // The number of agents may have changed.
          await plan.refetch()
          throw problem
        }
        setDone(
          <p aria-live="assertive">
            <HostileText text={problem.message} max={600} />
          </p>,
        )
      }
      return undefined
    })
  return { plan: plan.error ? undefined : plan.data, isBusy, fault: plan.error ?? fault, done, start }
}

/**
 * Suspends or resumes several agents as one containment: shows the plan, asks for the confirmation text, then shows the
 * progress.
 */
export function FleetDialog({ action, selector, children, because = '', onClose }: FleetDialogProps) {
  const { plan, start, ...state } = useContainment(action, selector)
  const hint = useId()
  const [reason, setReason] = useState(because)
  const [typed, setTyped] = useState('')
  const [isTwoPerson, setTwoPerson] = useState(false)
  const isSuspend = action === 'suspend'
  const title = `${isSuspend ? 'Suspend' : 'Resume'} ${plan ? counted(plan.agents, 'agent') : 'agents'}`
  const isTyped = typed.trim() === plan?.confirm
  return (
    <FormDialog
      {...state}
      title={title}
      submit={title}
      kind={isSuspend ? 'act' : 'go'}
      shortcut={`${commandKey}↵`}
      isReady={isTyped && plan !== undefined && plan.agents > 0 && reason.trim() !== '' && selector !== undefined}
      onSubmit={() =>
        void start({ reason: reason.trim(), confirm: typed.trim(), ...(isTwoPerson ? { two_person: true } : {}) })
      }
      onClose={onClose}
    >
      {children}
      {selector && !plan && !state.fault && <p className="quiet">Loading affected agents…</p>}
      {plan && (
        <>
          <Plan plan={plan} />
          {plan.second_operator && (
            <Notice>
              A second operator must confirm this within {secondOperatorMinutes} minutes, with another key.
            </Notice>
          )}
          <ReasonField action={action} reason={reason} onReason={setReason} isFirst={!children} />
          {(isSuspend || !plan.second_operator) && (
            <Check
              label={isSuspend ? 'Require two operators to resume them' : 'Require a second operator'}
              checked={isTwoPerson}
              onChange={({ target }) => setTwoPerson(target.checked)}
            />
          )}
          <TextField
            label={
              <>
                Type <b>{plan.confirm}</b> to confirm
              </>
            }
            isCode
            value={typed}
            maxLength={40}
            aria-describedby={hint}
            onChange={({ target }) => setTyped(target.value)}
          />
          <p id={hint} role="status" className="warning">
            {typed !== '' && !isTyped ? `Does not match "${plan.confirm}".` : ''}
          </p>
        </>
      )}
    </FormDialog>
  )
}
