import { type ComponentProps, type ReactNode, useState } from 'react'
import css from './button.module.css'

/** `go` is the main action of a form, `danger` opens one that does harm, `act` does it. */
export type ButtonKind = 'default' | 'plain' | 'go' | 'danger' | 'act'

/** Classes for links that look like buttons. */
export const buttonClass = (kind: ButtonKind = 'default'): string =>
  kind === 'default' ? css.button! : `${css.button} ${css[kind]}`

interface ButtonProps extends Omit<ComponentProps<'button'>, 'type' | 'className' | 'about'> {
  kind?: ButtonKind
  isSubmit?: boolean
  /** Key that does the same. */
  shortcut?: string | undefined
  /** What the button acts on, for screen readers: rows repeat their buttons. */
  about?: ReactNode
}

export function Button({ kind, isSubmit = false, shortcut, about, children, ...rest }: ButtonProps) {
  return (
    <button {...rest} type={isSubmit ? 'submit' : 'button'} className={buttonClass(kind)}>
      <span className={css.text}>
        {children}
        {about !== undefined && <span className="only-read"> {about}</span>}
      </span>
      {shortcut !== undefined && <kbd>{shortcut}</kbd>}
    </button>
  )
}

interface ConfirmButtonProps extends Omit<ButtonProps, 'onClick' | 'isSubmit' | 'kind'> {
  /** Text of the second press, such as "Delete it". */
  sure: ReactNode
  onConfirm(): void
  /** Renders the button, so that callers can restrict it. */
  as?: (props: ButtonProps) => ReactNode
}

/** Acts on the second press. Leaving the button takes the first one back. */
export function ConfirmButton({ sure, onConfirm, children, as: Shown = Button, ...rest }: ConfirmButtonProps) {
  const [isAsked, setAsked] = useState(false)
  return (
    <Shown
      {...rest}
      kind={isAsked ? 'danger' : 'default'}
      onBlur={() => setAsked(false)}
      onClick={() => {
        setAsked(!isAsked)
        if (isAsked) onConfirm()
      }}
    >
      {isAsked ? sure : children}
    </Shown>
  )
}

interface ChipProps extends Omit<ComponentProps<'button'>, 'type' | 'className'> {
  isOn: boolean
  /** Number behind the name; null while it is loading. */
  count?: number | null | undefined
}

/** A filter that is on or off. */
export function Chip({ isOn, count, children, ...rest }: ChipProps) {
  return (
    <button {...rest} type="button" className={css.chip} aria-pressed={isOn}>
      {children}
      {count !== undefined && <b>{count === null ? '…' : count.toLocaleString('en')}</b>}
    </button>
  )
}

/** A filter that is on; a press removes it. */
export function RemovableChip({ children, onRemove }: { children: ReactNode; onRemove(): void }) {
  return (
    <Chip isOn onClick={onRemove}>
      {children} <span aria-hidden="true">×</span>
      <span className="only-read">Remove this filter</span>
    </Chip>
  )
}

interface ChipGroupProps<Value extends string> {
  label: string
  /** Undefined if all are shown. */
  value: Value | undefined
  options: readonly { value: Value; name: ReactNode; count?: number | null | undefined }[]
  /** The chip that shows all; without it, one of the options is always on. */
  all?: { name: ReactNode; count?: number | null | undefined }
  onChange(value: NoInfer<Value> | undefined): void
}

/** One choice of a few. A second press on the chosen one shows all again. */
export function ChipGroup<Value extends string>({ label, value, options, all, onChange }: ChipGroupProps<Value>) {
  return (
    <div className="chips" role="group" aria-label={label}>
      {all && (
        <Chip isOn={value === undefined} count={all.count} onClick={() => onChange(undefined)}>
          {all.name}
        </Chip>
      )}
      {options.map((option) => (
        <Chip
          key={option.value}
          isOn={value === option.value}
          count={option.count}
          onClick={() => onChange(all && value === option.value ? undefined : option.value)}
        >
          {option.name}
        </Chip>
      ))}
    </div>
  )
}
