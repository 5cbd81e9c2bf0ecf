import { useQuery } from '@tanstack/react-query'
import type { AlertChange } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { type AlertDetail, assigneesQuery } from '../data/alerts.ts'
import { useMayOperate } from '../data/session.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { Button } from '../ui/button.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { Form, fieldText, SelectField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Panel } from '../ui/panel.tsx'
import { plainText } from '../ui/unseen-characters.ts'
import css from './alerts.module.css'

/** Characters of a name in a list to choose from. */
const shownName = 60

/** The people and keys that an alert can be assigned to, with an empty choice first. */
function useChoices() {
  const mayOperate = useMayOperate()
  const { data = [], error } = useQuery({ ...assigneesQuery, enabled: mayOperate })
  const named = data.map(({ id, name, kind, own }) => {
    const suffix = own ? ' (you)' : kind === 'key' ? ' (key)' : ''
    return [id, plainText(name.slice(0, shownName)) + suffix] as const
  })
  return { options: [['', 'Nobody'] as const, ...named], error }
}

interface AssignmentProps {
  alert: AlertDetail
  isBusy: boolean
  /** Changes the alert; `done` says what happened to it. */
  onChange(body: AlertChange, done: string): void
}

export function Assignment({ alert, isBusy, onChange }: AssignmentProps) {
  const mayOperate = useMayOperate()
  const { options, error } = useChoices()
  const { assignee, assignee_name: name, assignee_ended: isEnded } = alert
  const chosen = options.some(([id]) => id === assignee) ? (assignee ?? '') : ''
  return (
    <Panel
      title="Assignee"
      level={3}
      note={
        name === null ? (
          'none'
        ) : (
          <>
            <HostileText text={name} max={shownName} />
            {isEnded && ' has no access any more'}
          </>
        )
      }
      end={
        <OperatorButton disabled={isBusy} onClick={() => onChange({ assignee: 'me' }, 'assigned to you')}>
          Assign to me
        </OperatorButton>
      }
    >
      <Fault of={error} />
      <Form
        className={css.form}
        onSubmit={(form) => {
          const id = fieldText(form, 'assignee')
          onChange({ assignee: id || null }, id ? 'assigned' : 'unassigned')
        }}
      >
        <SelectField
          // The choices arrive after the first drawing, and the default counts only then.
          key={`${assignee} ${options.length}`}
          name="assignee"
          label="Assign to"
          defaultValue={chosen}
          options={options}
          disabled={!mayOperate}
        />
        <OperatorButton isSubmit disabled={isBusy}>
          Assign
        </OperatorButton>
      </Form>
    </Panel>
  )
}

/** Differs from every id and from nobody. */
const unchosen = '?'

interface AssignDialogProps {
  count: number
  onAssign(assignee: string | null): void
  onClose(): void
}

export function AssignDialog({ count, onAssign, onClose }: AssignDialogProps) {
  const { options, error } = useChoices()
  const [chosen, setChosen] = useState(unchosen)
  const assign = (to: string | null) => {
    onAssign(to)
    onClose()
  }
  return (
    <FormDialog
      title={`Assign ${counted(count, 'alert')}`}
      submit="Assign"
      fault={error ?? undefined}
      extra={<Button onClick={() => assign('me')}>Assign to me</Button>}
      onClose={onClose}
      isReady={chosen !== unchosen}
      onSubmit={() => assign(chosen || null)}
    >
      <SelectField
        isFirst
        label="Assignee"
        value={chosen}
        options={[[unchosen, 'Choose…'], ...options]}
        onChange={({ target }) => setChosen(target.value)}
      />
    </FormDialog>
  )
}
