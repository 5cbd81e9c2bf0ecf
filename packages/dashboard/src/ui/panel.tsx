import { type ReactNode, useEffect, useId } from 'react'
import { HostileText } from './hostile-text.tsx'
import css from './panel.module.css'

interface ScreenProps {
  /** Heading of the page and title of the tab. */
  title: string
  /** Drawn instead of the title where a part of it needs markup. */
  heading?: ReactNode
  lead?: ReactNode
  actions?: ReactNode
  children?: ReactNode
}

/** The body of a screen: heading, actions beside it, a sentence below, then its panels. */
export function Screen({ title, heading, lead, actions, children }: ScreenProps) {
  useTitle(title)
  return (
    <div className="stack">
      <div>
        <div className={css.head}>
          <h1>{heading ?? title}</h1>
          {actions && <span className={css.end}>{actions}</span>}
        </div>
        {lead && <p className={css.lead}>{lead}</p>}
      </div>
      {children}
    </div>
  )
}

/** Sets the tab's title to the page's heading. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title.replace(/\.$/, '')} · Wardline`
  }, [title])
}

interface PanelProps {
  title?: ReactNode
  /** Name for screen readers of a panel without a title. */
  label?: string | undefined
  note?: ReactNode
  /** Buttons at the right of the header. */
  end?: ReactNode
  /** Further content of the header. */
  header?: ReactNode
  /** Level of the title: 3 inside a drawer. */
  level?: 2 | 3
  /** Whether content that is too wide scrolls. */
  scrolls?: boolean
  className?: string | undefined
  children?: ReactNode
}

export function Panel({ title, label, note, end, header, level = 2, scrolls, className, children }: PanelProps) {
  const id = useId()
  const Title = level === 2 ? 'h2' : 'h3'
  return (
    <section
      // What scrolls must be reached by keys.
      tabIndex={scrolls ? 0 : undefined}
      className={`${css.panel} ${scrolls ? css.scrolls : ''} ${className ?? ''}`}
      aria-label={label}
      aria-labelledby={label === undefined && title !== undefined ? id : undefined}
    >
      {(title !== undefined || note || end || header) && (
        <header>
          {title !== undefined && <Title id={id}>{title}</Title>}
          {note && <span className="quiet">{note}</span>}
          {header}
          {end && <span className={css.end}>{end}</span>}
        </header>
      )}
      {children}
    </section>
  )
}

/** What a list says while it has no rows, with the next step. */
export function EmptyState({ children, action }: { children: ReactNode; action?: ReactNode }) {
  return (
    <div className={css.empty}>
      <p>{children}</p>
      {action}
    </div>
  )
}

/** A fact that must not be overlooked. */
export function Notice({ kind = 'warning', children }: { kind?: 'warning' | 'suspended'; children: ReactNode }) {
  return <div className={`${css.notice} ${css[kind]}`}>{children}</div>
}

/** Returns the message of a failure, as worded by the service. */
export const faultText = (fault: unknown): string => (fault instanceof Error ? fault.message : String(fault))

/** The message of a failure, which may be untrusted; commands between backticks as code. */
function FaultText({ text }: { text: string }) {
  return text.split(/`([^`]+)`/).map((part, index) => {
    const shown = <HostileText key={index} text={part} max={1_000} />
    return index % 2 === 1 ? <code key={index}>{shown}</code> : shown
  })
}

/** A failure with a page that helps, which opens in a new tab. */
export interface HelpedError extends Error {
  help?: { href: string; label: string }
}

/** A failure, announced to screen readers. Draws nothing without one. */
export function Fault({ of, isInPanel = false }: { of: unknown; isInPanel?: boolean }) {
  if (of === undefined || of === null) return null
  const { help } = of as HelpedError
  return (
    <p role="alert" className={`fault ${isInPanel ? css.empty : ''}`}>
      <FaultText text={faultText(of)} />
      {help && (
        <>
          {' '}
          <a href={help.href} target="_blank" rel="noopener">
            {help.label}
          </a>
        </>
      )}
    </p>
  )
}

interface StatProps {
  name: ReactNode
  value: ReactNode
  /** Colour of the value. */
  kind?: 'warning' | 'critical' | 'breach' | 'suspended' | 'ok' | undefined
  note?: ReactNode
}

/** One number with its name; several stand in `Stats`. */
export function Stat({ name, value, kind, note }: StatProps) {
  return (
    <div className={css.stat}>
      <dt>{name}</dt>
      <dd className={kind}>{value}</dd>
      {note && <dd className="quiet">{note}</dd>}
    </div>
  )
}

export function Stats({ label, children }: { label?: string; children: ReactNode }) {
  return (
    <dl className={css.stats} aria-label={label}>
      {children}
    </dl>
  )
}
