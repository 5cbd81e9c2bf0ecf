import { Fragment, useState } from 'react'
import { Button } from './button.tsx'
import { plainText, splitUnseen } from './unseen-characters.ts'

function Shown({ text }: { text: string }) {
  return splitUnseen(text).map(({ text: part, code }, index) =>
    code === undefined ? (
      <span key={index}>{part}</span>
    ) : (
      <span key={index} className="unseen" title="A character that would be invisible here">
        {code}
      </span>
    ),
  )
}

interface HostileTextProps {
  text: string
  max?: number
  line?: boolean
  className?: string
  /** Parts to mark, by their places in the text. */
  marks?: readonly Span[]
}

/** A part of a text, from a character up to another one. */
export interface Span {
  start: number
  end: number
}

/** The text with its marked parts; parts that overlap become one. */
function Marked({ text, marks }: { text: string; marks: readonly Span[] }) {
  let done = 0
  const parts = [...marks]
    .sort((one, other) => one.start - other.start)
    .flatMap(({ start, end }) => {
      const from = Math.max(start, done)
      const to = Math.min(end, text.length)
      if (to <= from) return []
      const part = (
        <Fragment key={from}>
          <Shown text={text.slice(done, from)} />
          <mark>
            <Shown text={text.slice(from, to)} />
          </mark>
        </Fragment>
      )
      done = to
      return [part]
    })
  return (
    <>
      {parts}
      <Shown text={text.slice(done)} />
    </>
  )
}

/**
 * An untrusted text, from an agent or an attacker. Characters that would be invisible or would reverse the text are
 * shown by their code. In a line it is cut to the width; elsewhere it is cut after `max` characters, with the rest
 * behind a button.
 */
export function HostileText({ text, max = 300, line = false, className = '', marks }: HostileTextProps) {
  const [isOpen, setOpen] = useState(false)
  if (line) {
    const start = text.slice(0, max)
    return (
      <bdi className={`cut ${className}`} title={plainText(start)}>
        <Shown text={start} />
      </bdi>
    )
  }
  const hidden = isOpen ? 0 : Math.max(0, text.length - max)
  const shown = hidden > 0 ? text.slice(0, max) : text
  return (
    <bdi className="hostile">
      {marks ? <Marked text={shown} marks={marks} /> : <Shown text={shown} />}
      {hidden > 0 && (
        <Button kind="plain" onClick={() => setOpen(true)}>
          … {hidden.toLocaleString('en')} more characters
        </Button>
      )}
    </bdi>
  )
}
