import { limits } from '@wardline/contract'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { FormDialog } from '../ui/dialog.tsx'
import { SelectField, TextField } from '../ui/field.tsx'
import { dayMs } from '../ui/span.ts'

/** Allows for clock differences: the service compares the longest allowed end with its own clock. */
const slackMs = 60_000

export function IgnoreDialog({ onClose }: { onClose(): void }) {
  const { fault, isBusy, run } = useChange({ changes: [queryKeys.decoyIgnores] })
  async function submit(form: FormData) {
    const textOf = (name: string) => String(form.get(name)).trim()
    const until = new Date(Date.now() + Number(form.get('days')) * dayMs - slackMs).toISOString()
    const isDone = await run(async () => {
      await call('createDecoyIgnore', { body: { tool: textOf('tool'), reason: textOf('reason'), until } })
      return 'Tool ignored.'
    })
    if (isDone) onClose()
  }
  return (
    <FormDialog
      title="Ignore a tool"
      submit="Ignore tool"
      fault={fault}
      isBusy={isBusy}
      onSubmit={(form) => void submit(form)}
      onClose={onClose}
    >
      <TextField label="Tool" name="tool" isFirst required maxLength={24} />
      <TextField label="Reason" name="reason" required maxLength={limits.reason} />
      <SelectField
        label="Duration"
        name="days"
        defaultValue={7}
        options={[
          [1, '1 day'],
          [7, '7 days'],
          [30, '30 days'],
          [90, '90 days'],
        ]}
      />
    </FormDialog>
  )
}
