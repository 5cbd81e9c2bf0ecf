import { type ReactNode, useEffect, useRef } from 'react'
import { createPortal } from 'react-dom'

interface DialogProps {
  label: string
  onClose(): void
  children: ReactNode
  className?: string
  /** Whether a press beside the dialog closes it: not where that would lose what is shown once. */
  closesOutside?: boolean
}

/** The browser's own modal dialog: it keeps the focus, closes on Escape, and gives the focus back. */
export function Dialog({ label, onClose, children, className, closesOutside = true }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const before = document.activeElement
    dialog.current?.showModal()
    // React focuses before the dialog is open, and the browser then takes the first button.
    dialog.current?.querySelector<HTMLElement>('[data-first]')?.focus()
    return () => {
      if (before instanceof HTMLElement) before.focus()
    }
  }, [])
  // Beside the page: the styles of a list or table that opens it are not its own.
  return createPortal(
    <dialog
      ref={dialog}
      aria-label={label}
      className={className}
      // React hands the event of a dialog inside this one to this one as well.
      onClose={(event) => {
        if (event.target === dialog.current) onClose()
      }}
      onPointerDown={(event) => {
        if (event.target !== dialog.current || !closesOutside) return
        const { left, right, top, bottom } = dialog.current.getBoundingClientRect()
        const { clientX: x, clientY: y } = event
        if (x < left || x > right || y < top || y > bottom) dialog.current.close()
      }}
    >
      {children}
    </dialog>,
    document.body,
  )
}
