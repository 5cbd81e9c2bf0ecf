import { useQuery } from '@tanstack/react-query'
import { counted } from '@wardline/text/counted'
import { sessionQuery } from '../data/session.ts'
import { Button } from '../ui/button.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { TextField } from '../ui/field.tsx'

export const maxName = 100

interface AssignDialogProps {
  count: number
  onAssign(name: string | null): void
  onClose(): void
}

export function AssignDialog({ count, onAssign, onClose }: AssignDialogProps) {
  const { data: session } = useQuery(sessionQuery)
  const assign = (to: string | null) => {
    onAssign(to)
    onClose()
  }
  return (
    <FormDialog
      title={`Assign ${counted(count, 'alert')}`}
      submit="Assign"
      extra={
        <>
          <Button onClick={() => assign(null)}>Unassign</Button>
          {session && <Button onClick={() => assign(session.name.slice(0, maxName))}>Assign to me</Button>}
        </>
      }
      onClose={onClose}
      onSubmit={(form) => {
        const name = String(form.get('name')).trim()
        if (name !== '') assign(name)
      }}
    >
      <TextField label="Assignee" name="name" isFirst required maxLength={maxName} />
    </FormDialog>
  )
}
