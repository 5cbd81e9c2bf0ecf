import { type ReactNode, useEffect, useRef } from 'react'
import { createPortal } from 'react-dom'

interface DialogProps {
  label: string
  onClose(): void
  children: ReactNode
  className?: string
  /** Whether a press beside the dialog closes it. False if that would lose a value that is shown only once. */
  closesOutside?: boolean
}

/** The browser's modal dialog: it traps the focus, closes on Escape, and returns the focus. */
export function Dialog({ label, onClose, children, className, closesOutside = true }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const before = document.activeElement
    dialog.current?.showModal()
    // React applies autofocus before the dialog opens, and the browser then focuses the first button.
    dialog.current?.querySelector<HTMLElement>('[data-first]')?.focus()
    return () => {
      if (before instanceof HTMLElement) before.focus()
    }
  }, [])
  // A portal, so that the styles of the list or table that opens the dialog do not apply to it.
  return createPortal(
    <dialog
      ref={dialog}
      aria-label={label}
      className={className}
      // React also bubbles the close event of a nested dialog to this one.
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
