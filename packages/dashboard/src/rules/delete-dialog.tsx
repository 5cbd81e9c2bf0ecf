import { useChange } from '../data/change.ts'
import { queryKeys } from '../data/query-keys.ts'
import { FormDialog } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'

interface DeleteDialogProps {
  title: string
  remove(): Promise<string>
  onClose(): void
}

export function DeleteDialog({ title, remove, onClose }: DeleteDialogProps) {
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.rules] })
  return (
    <FormDialog
      title={
        <>
          Delete <HostileText text={title} max={120} />?
        </>
      }
      submit="Delete rule"
      kind="act"
      isBusy={isBusy}
      fault={fault}
      onSubmit={() => void run(remove)}
      onClose={onClose}
    >
      <p>The rule stops firing. Its past firings and the suspensions that it made stay.</p>
    </FormDialog>
  )
}
