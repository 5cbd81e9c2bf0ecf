import type { QueryKey } from '@tanstack/react-query'
import { type ComponentProps, type ReactNode, useState } from 'react'
import { useChange } from '../data/change.ts'
import { lazyDialog, usePreload } from '../ui/lazy-dialog.tsx'
import { OperatorButton } from './operator-button.tsx'

const FormDialog = lazyDialog(async () => (await import('../ui/dialog.tsx')).FormDialog)

interface ChangeDialogProps extends Omit<ComponentProps<typeof FormDialog>, 'isBusy' | 'fault' | 'onSubmit'> {
  /** Subjects that are read again afterwards. */
  changes: readonly QueryKey[]
  /** Sends the change. The dialog closes after a sentence, which is said; without one it stays, to show the result. */
  send(form: FormData): Promise<string | undefined>
}

/** A dialog with one form that changes one thing. A screen can hold it: the library of dialogs is loaded when it opens. */
export function ChangeDialog({ changes, send, ...dialog }: ChangeDialogProps) {
  const { isBusy, fault, run } = useChange({ changes })
  const submit = (form: FormData) =>
    run(async () => {
      const sentence = await send(form)
      if (sentence) dialog.onClose()
      return sentence
    })
  return <FormDialog {...dialog} isBusy={isBusy} fault={fault} onSubmit={(form) => void submit(form)} />
}

/** A button with its dialog, for operators. It must stay while the dialog shows a result. */
export function ChangeButton({ name, ...dialog }: Omit<ChangeDialogProps, 'onClose'> & { name: ReactNode }) {
  const [isOpen, setOpen] = useState(false)
  usePreload(FormDialog.load)
  return (
    <>
      <OperatorButton kind={dialog.kind === 'act' ? 'danger' : 'default'} onClick={() => setOpen(true)}>
        {name}
      </OperatorButton>
      {isOpen && <ChangeDialog {...dialog} onClose={() => setOpen(false)} />}
    </>
  )
}

/** Returns what a person entered into a text field, without spaces around it. */
export const entered = (form: FormData, name: string): string => String(form.get(name)).trim()
