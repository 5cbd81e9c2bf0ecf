import type { AlertChange } from '@wardline/contract'
import type { Alert } from '../data/alerts.ts'
import { OperatorButton } from '../parts/operator-button.tsx'

interface AlertAction {
  name: string
  /** States of the alerts that it changes. */
  from: readonly Alert['status'][]
  body: AlertChange
  /** What happened to the alerts. */
  done: string
}

export const acknowledge: AlertAction = {
  name: 'Acknowledge',
  from: ['open'],
  body: { status: 'acknowledged' },
  done: 'acknowledged',
}

const unresolved = ['open', 'acknowledged'] as const
const actions: readonly AlertAction[] = [
  acknowledge,
  { name: 'Resolve', from: unresolved, body: { status: 'resolved' }, done: 'resolved' },
  {
    name: 'False positive',
    from: unresolved,
    body: { status: 'resolved', verdict: 'false_positive' },
    done: 'resolved as false positive',
  },
  { name: 'Reopen', from: ['acknowledged', 'resolved'], body: { status: 'open' }, done: 'reopened' },
]

/** Alerts that an action changes. */
export const changedBy = ({ from }: AlertAction, alerts: readonly Alert[]) =>
  alerts.filter(({ status }) => from.includes(status))

interface AlertActionsProps {
  alerts: readonly Alert[]
  isBusy: boolean
  /** Whether the buttons say how many alerts they change. */
  isCounted?: boolean
  onChange(alerts: readonly Alert[], action: AlertAction): void
}

/** Buttons for what can be done to the alerts. */
export function AlertActions({ alerts, isBusy, isCounted = false, onChange }: AlertActionsProps) {
  return actions.map((action) => {
    const changed = changedBy(action, alerts)
    return (
      changed.length > 0 && (
        <OperatorButton
          key={action.name}
          {...(action === acknowledge ? { kind: 'go', shortcut: 'a' } : {})}
          disabled={isBusy}
          onClick={() => onChange(changed, action)}
        >
          {action.name} {isCounted && changed.length}
        </OperatorButton>
      )
    )
  })
}
