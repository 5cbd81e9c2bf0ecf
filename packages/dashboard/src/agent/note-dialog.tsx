import { limits } from '@wardline/contract'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { FormDialog } from '../ui/dialog.tsx'
import { fieldText, TextArea } from '../ui/field.tsx'

export function NoteDialog({ id, text, onClose }: { id: string; text: string; onClose(): void }) {
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.agent(id)] })
  const save = async (written: string) => {
    const { note } = await call('setInstanceNote', { params: { instanceId: id }, body: { text: written } })
    onClose()
    return note ? 'Note saved.' : 'Note removed.'
  }
  return (
    <FormDialog
      title={`Note on ${id}`}
      submit="Save note"
      isBusy={isBusy}
      fault={fault}
      onSubmit={(form) => void run(() => save(fieldText(form, 'note')))}
      onClose={onClose}
    >
      <TextArea
        name="note"
        label="What people should know about this agent"
        hint="Everyone who reads this page sees it. An empty note is removed."
        isFirst
        rows={6}
        maxLength={limits.agentNote}
        defaultValue={text}
      />
    </FormDialog>
  )
}
