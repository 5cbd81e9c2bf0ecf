import { FormDialog } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'

interface ResetDialogProps {
  id: string
  metric: string
  isBusy: boolean
  fault: unknown
  onReset(): void
  onClose(): void
}

export function ResetDialog({ id, metric, isBusy, fault, onReset, onClose }: ResetDialogProps) {
  return (
    <FormDialog
      title="Reset baseline"
      submit="Reset baseline"
      kind="danger"
      isBusy={isBusy}
      fault={fault}
      onSubmit={onReset}
      onClose={onClose}
    >
      <p>
        The baseline of <HostileText text={metric} max={100} /> for {id} is rebuilt from the next samples. Until then
        the metric is compared with other agents, and an abnormal level may become the new normal.
      </p>
    </FormDialog>
  )
}
