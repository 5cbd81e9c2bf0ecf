import { Dialog as Base } from '@base-ui/react/dialog'
import { type FormEvent, type KeyboardEvent, type ReactNode, useRef } from 'react'
import { Button, type ButtonKind } from './button.tsx'
import css from './dialog.module.css'
import { Fault } from './panel.tsx'
import { isTyping } from './shortcuts.ts'

interface DialogProps {
  /** Heading and name. */
  title?: ReactNode
  /** Name of a dialog without a heading. */
  label?: string
  look?: 'drawer' | 'palette'
  /** Whether a press beside the dialog closes it. False if that would lose a value that is shown only once. */
  closesOutside?: boolean
  onClose(): void
  onKeyDown?(event: KeyboardEvent): void
  children: ReactNode
}

/**
 * A modal dialog, open while it is mounted: it traps the focus, closes on Escape and returns the focus. The element with
 * `data-first` gets the focus, else the first that can have it.
 */
export function Dialog({ title, label, look, closesOutside = true, onClose, onKeyDown, children }: DialogProps) {
  const popup = useRef<HTMLDivElement>(null)
  return (
    <Base.Root open disablePointerDismissal={!closesOutside} onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Base.Portal>
        <Base.Backdrop className={css.backdrop} forceRender />
        <Base.Popup
          ref={popup}
          className={`${css.popup} ${look ? css[look] : ''}`}
          aria-label={label}
          initialFocus={() => popup.current?.querySelector<HTMLElement>('[data-first]') ?? true}
          onKeyDown={onKeyDown}
        >
          {title !== undefined && <Base.Title>{title}</Base.Title>}
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}

/** Buttons at the end of a dialog. */
export function DialogFoot({ children }: { children: ReactNode }) {
  return <div className={css.foot}>{children}</div>
}

interface FormDialogProps extends Pick<DialogProps, 'title' | 'onClose' | 'children'> {
  /** Text of the button that submits. */
  submit: ReactNode
  kind?: ButtonKind
  /** Text of the shortcut, ⌘↵ or Ctrl ↵, that submits from any place in the form. Default: none. */
  shortcut?: string
  isBusy?: boolean
  /** Whether the form can be submitted. */
  isReady?: boolean
  fault?: unknown
  /** Buttons between Cancel and the one that submits. */
  extra?: ReactNode
  /** The result, such as a key that is shown only once. It replaces the form; only Escape and Close close it. */
  done?: ReactNode
  onSubmit(form: FormData): void
}

/** A dialog with one form: fields, its fault, Cancel, and the button that submits. */
export function FormDialog(props: FormDialogProps) {
  const { title, submit, kind = 'go', shortcut, isBusy = false, isReady = true, fault, extra, done } = props
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (isReady && !isBusy && !done) props.onSubmit(new FormData(event.currentTarget))
  }
  return (
    <Dialog title={title} closesOutside={!done} onClose={props.onClose}>
      <form
        onSubmit={send}
        onKeyDown={(event) => {
          if (done || shortcut === undefined || event.key !== 'Enter' || !(event.metaKey || event.ctrlKey)) return
          event.preventDefault()
          event.currentTarget.requestSubmit()
        }}
        className={css.form}
      >
        {done || props.children}
        <Fault of={fault} />
        <DialogFoot>
          {/* Close takes the focus, because the button that had it is gone. */}
          <Button key={done ? 'close' : 'cancel'} autoFocus={Boolean(done)} onClick={props.onClose} shortcut="Esc">
            {done ? 'Close' : 'Cancel'}
          </Button>
          {!done && extra}
          {!done && (
            <Button isSubmit kind={kind} shortcut={shortcut} disabled={isBusy || !isReady}>
              {submit}
            </Button>
          )}
        </DialogFoot>
      </form>
    </Dialog>
  )
}

interface DrawerProps {
  label: string
  /** Opens the rows beside this one. Undefined at the end of the list. */
  steps?: { older: (() => void) | undefined; newer: (() => void) | undefined }
  /** Further buttons beside Close. */
  actions?: ReactNode
  /** Actions by key, such as `a`. */
  keys?: Record<string, () => void>
  onClose(): void
  children: ReactNode
}

/** One row of a list at the right of the screen. `j` and `k` go to the next and previous one. */
export function Drawer({ label, steps, actions, keys = {}, onClose, children }: DrawerProps) {
  const all: Record<string, (() => void) | undefined> = { j: steps?.older, k: steps?.newer, ...keys }
  return (
    <Dialog
      label={label}
      look="drawer"
      onClose={onClose}
      onKeyDown={(event) => {
        if (isTyping(event.target) || event.metaKey || event.ctrlKey || event.altKey) return
        all[event.key]?.()
      }}
    >
      <div className="chips">
        <Button onClick={onClose} shortcut="Esc">
          Close
        </Button>
        {steps && (
          <>
            <Button disabled={!steps.older} onClick={steps.older} shortcut="j">
              Older
            </Button>
            <Button disabled={!steps.newer} onClick={steps.newer} shortcut="k">
              Newer
            </Button>
          </>
        )}
        {actions}
      </div>
      <div className={css.content}>{children}</div>
    </Dialog>
  )
}

/** The steps of a drawer through the rows of its list, newest first. */
export function stepsOf<Key>(keys: readonly Key[], key: Key, open: (key: NonNullable<Key>) => void) {
  const index = keys.indexOf(key)
  const step = (by: number) => {
    const next = index < 0 ? undefined : keys[index + by]
    return next === undefined || next === null ? undefined : () => open(next)
  }
  return { older: step(1), newer: step(-1) }
}
