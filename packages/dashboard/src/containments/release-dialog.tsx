import { limits } from '@wardline/contract'
import { useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { FormDialog } from '../ui/dialog.tsx'
import { TextArea } from '../ui/field.tsx'

export function ReleaseDialog({ onClose }: { onClose(): void }) {
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.brake] })
  const [reason, setReason] = useState('')
  async function release() {
    const isDone = await run(async () => {
      await call('changeBrake', { body: { action: 'release', reason: reason.trim() } })
      return 'Brake released.'
    })
    if (isDone) onClose()
  }
  return (
    <FormDialog
      title="Release the brake"
      submit="Release the brake"
      isBusy={isBusy}
      isReady={reason.trim() !== ''}
      fault={fault}
      onSubmit={() => void release()}
      onClose={onClose}
    >
      <p>Automatic suspensions start again. Agents whose suspension was refused keep running; suspend them by hand.</p>
      <TextArea
        label="Reason"
        isFirst
        rows={2}
        required
        maxLength={limits.reason}
        value={reason}
        onChange={({ target }) => setReason(target.value)}
      />
    </FormDialog>
  )
}
