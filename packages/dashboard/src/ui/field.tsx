import { type ComponentProps, type ReactNode, type RefObject, useEffect, useId, useState } from 'react'
import css from './field.module.css'

interface Labelled {
  label: ReactNode
  /** A sentence below the field. */
  hint?: ReactNode
}

/** A label with the element that it names, and the hint that describes the element. */
function Field({ label, hint, children }: Labelled & { children(describedBy: string | undefined): ReactNode }) {
  const id = useId()
  return (
    <div className={css.field}>
      {/* biome-ignore lint/a11y/noLabelWithoutControl: the element is among the children */}
      <label>
        <span>{label}</span>
        {children(hint ? id : undefined)}
      </label>
      {hint && (
        <span id={id} className="quiet">
          {hint}
        </span>
      )}
    </div>
  )
}

/** Fields of one subject, under its name. */
export function FieldGroup({ label, children }: { label: ReactNode; children: ReactNode }) {
  return (
    <fieldset className={css.group}>
      <legend>{label}</legend>
      {children}
    </fieldset>
  )
}

/** `isFirst` gives the element the focus when its dialog opens. */
type Focus = { isFirst?: boolean }

interface TextFieldProps extends Omit<ComponentProps<'input'>, 'className'>, Labelled, Focus {
  isCode?: boolean
  /** Offered while typing. */
  suggestions?: readonly string[]
}

export function TextField({ label, hint, isFirst, isCode, suggestions, ...input }: TextFieldProps) {
  const list = useId()
  return (
    <Field label={label} hint={hint}>
      {(describedBy) => (
        <>
          <input
            aria-describedby={describedBy}
            {...input}
            className={`${css.input} ${isCode ? 'mono' : ''}`}
            {...(suggestions && { list })}
            data-first={isFirst || undefined}
            {...(isCode ? { autoComplete: 'off', spellCheck: false } : {})}
          />
          {suggestions && (
            <datalist id={list}>
              {suggestions.map((text) => (
                <option key={text} value={text} />
              ))}
            </datalist>
          )}
        </>
      )}
    </Field>
  )
}

type TextAreaProps = Omit<ComponentProps<'textarea'>, 'className'> & Labelled & Focus

export function TextArea({ label, hint, isFirst, ...area }: TextAreaProps) {
  return (
    <Field label={label} hint={hint}>
      {(describedBy) => (
        <textarea aria-describedby={describedBy} {...area} className={css.input} data-first={isFirst || undefined} />
      )}
    </Field>
  )
}

type Option = readonly [value: string | number, name: string]
type SelectProps = Omit<ComponentProps<'select'>, 'className'> & { options: readonly (Option | string)[] } & Focus

/** The browser's own select: for short lists it is the best on every device. `label` names it for screen readers. */
export function Select({ options, isFirst, label, ...select }: SelectProps & { label?: string }) {
  return (
    <select {...select} aria-label={label} className={css.input} data-first={isFirst || undefined}>
      {options.map((option) => {
        const [value, name] = typeof option === 'string' ? [option, option] : option
        return (
          <option key={value} value={value}>
            {name}
          </option>
        )
      })}
    </select>
  )
}

export function SelectField({ label, hint, ...select }: SelectProps & Labelled) {
  return (
    <Field label={label} hint={hint}>
      {(describedBy) => <Select aria-describedby={describedBy} {...select} />}
    </Field>
  )
}

/** A checkbox or radio button with its label. */
export function Check({ label, ...input }: Omit<ComponentProps<'input'>, 'className'> & Pick<Labelled, 'label'>) {
  return (
    <label className={css.check}>
      <input type="checkbox" {...input} />
      <span>{label}</span>
    </label>
  )
}

/** Checkbox of a row, named for screen readers only. */
export function Tick({ label, ...input }: Omit<ComponentProps<'input'>, 'className'> & { label: string }) {
  return (
    <label className={css.tick}>
      <input type="checkbox" aria-label={label} {...input} />
    </label>
  )
}

/** Where hints of keys are not shown, as in base.css. */
const touch = '(pointer: coarse), (max-width: 720px)'

interface SearchFieldProps {
  field: RefObject<HTMLInputElement | null>
  label: string
  value: string
  maxLength?: number
  onChange(text: string): void
  /** For searches that are too slow to start while typing. */
  onEnter?(text: string): void
}

/** Text filter of a list. Screens focus it on `/`; Enter and Escape leave it. */
export function SearchField({ field, label, value, maxLength = 200, onChange, onEnter }: SearchFieldProps) {
  const [text, setText] = useState(value)
  // A saved view changes the filter from outside the field; what is being typed stays.
  useEffect(() => {
    if (document.activeElement !== field.current) setText(value)
  }, [value, field])
  return (
    <input
      ref={field}
      type="search"
      className={`${css.input} ${css.search}`}
      aria-label={label}
      placeholder={matchMedia(touch).matches ? label : `${label}  /`}
      maxLength={maxLength}
      value={text}
      onChange={({ target }) => {
        setText(target.value)
        onChange(target.value)
      }}
      onKeyDown={({ key }) => {
        if (key === 'Enter') onEnter?.(text)
        if (key === 'Escape' || key === 'Enter') field.current?.blur()
      }}
    />
  )
}

interface FormProps {
  className?: string | undefined
  onSubmit(form: FormData): void
  children: ReactNode
}

/** A form outside a dialog. */
export function Form({ className, onSubmit, children }: FormProps) {
  return (
    <form
      className={className}
      onSubmit={(event) => {
        event.preventDefault()
        onSubmit(new FormData(event.currentTarget))
      }}
    >
      {children}
    </form>
  )
}

/** Returns the trimmed text of a form's field; empty without the field. */
export const fieldText = (form: FormData, name: string): string => String(form.get(name) ?? '').trim()
