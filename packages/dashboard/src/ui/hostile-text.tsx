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

/** Lines shown as such while the text is cut, and when it is open: a text of line breaks alone must not fill the screen. */
const maxLines = { cut: 20, open: 200 }

/** The beginning of the text with at most so many lines. */
function firstLines(text: string, max: number): string {
  let end = -1
  for (let line = 0; line < max; line++) {
    end = text.indexOf('\n', end + 1)
    if (end < 0) return text
  }
  return text.slice(0, end)
}

/** The text in lines, each with a direction of its letters alone; further line breaks are shown as other unseen characters. */
function Lines({ text }: { text: string }) {
  const lines = text.split(/\r?\n/)
  const shown = [...lines.slice(0, maxLines.open - 1), lines.slice(maxLines.open - 1).join('\n')]
  return shown.slice(0, lines.length).map((line, index) => (
    <Fragment key={index}>
      {index > 0 && <br />}
      <bdi>
        <Shown text={line} />
      </bdi>
    </Fragment>
  ))
}

interface HostileTextProps {
  text: string
  max?: number
  line?: boolean
  /** Shows line breaks: for texts that people write. */
  lines?: boolean
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
export function HostileText({ text, max = 300, line = false, lines = false, className = '', marks }: HostileTextProps) {
  const [isOpen, setOpen] = useState(false)
  if (line) {
    const start = text.slice(0, max)
    return (
      <bdi className={`cut ${className}`} title={plainText(start)}>
        <Shown text={start} />
      </bdi>
    )
  }
  const start = text.slice(0, max)
  const shown = isOpen ? text : lines ? firstLines(start, maxLines.cut) : start
  const hidden = text.length - shown.length
  return (
    <bdi className="hostile">
      {marks && <Marked text={shown} marks={marks} />}
      {!marks && (lines ? <Lines text={shown} /> : <Shown text={shown} />)}
      {hidden > 0 && (
        <Button kind="plain" onClick={() => setOpen(true)}>
          … {hidden.toLocaleString('en')} more characters
        </Button>
      )}
    </bdi>
  )
}
