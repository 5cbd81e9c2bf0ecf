import { Toast } from '@base-ui/react/toast'
import { useEffect } from 'react'
import { Button } from './button.tsx'
import { HostileText } from './hostile-text.tsx'
import { sayEarly, toasts } from './toast.ts'
import css from './toaster.module.css'

/** The role of a dialog would turn off the page's shortcuts while a toast is shown. */
const notDialog = { role: 'group', 'aria-modal': undefined } as const

function List() {
  const { toasts: shown } = Toast.useToastManager()
  return shown.map((toast) => (
    <Toast.Root key={toast.id} toast={toast} className={css.toast} {...notDialog}>
      <Toast.Title render={<p />}>
        <HostileText text={String(toast.title)} />
      </Toast.Title>
      <Toast.Close render={<Button kind="plain" />} aria-label="Close">
        ×
      </Toast.Close>
    </Toast.Root>
  ))
}

/** The sentences of `say`, at the corner of the page. */
export function Toaster() {
  useEffect(sayEarly, [])
  return (
    <Toast.Provider toastManager={toasts}>
      <Toast.Portal>
        <Toast.Viewport className={css.viewport} aria-label="Messages">
          <List />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  )
}
