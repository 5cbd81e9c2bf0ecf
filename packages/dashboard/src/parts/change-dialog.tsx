import type { QueryKey } from '@tanstack/react-query'
import type { ComponentProps } from 'react'
import { useChange } from '../data/change.ts'
import { lazyDialog } from '../ui/lazy-dialog.tsx'

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

/** Returns what a person entered into a text field, without spaces around it. */
export const entered = (form: FormData, name: string): string => String(form.get(name)).trim()
