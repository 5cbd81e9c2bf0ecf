import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { FormDialog } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'

export function ResetDialog({ id, metric, onClose }: { id: string; metric: string; onClose(): void }) {
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.agent(id)] })
  const reset = async () => {
    await call('resetBaseline', { params: { instanceId: id, metric } })
    onClose()
    return 'Baseline reset.'
  }
  return (
    <FormDialog
      title="Reset baseline"
      submit="Reset baseline"
      kind="danger"
      isBusy={isBusy}
      fault={fault}
      onSubmit={() => void run(reset)}
      onClose={onClose}
    >
      <p>
        The baseline of <HostileText text={metric} max={100} /> for {id} is rebuilt from the next samples. Until then
        the metric is compared with other agents, and an abnormal level may become the new normal.
      </p>
    </FormDialog>
  )
}
