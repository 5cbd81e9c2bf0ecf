import { useState } from 'react'
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
}

/**
 * An untrusted text, from an agent or an attacker. Characters that would be invisible or would reverse the text are
 * shown by their code. In a line it is cut to the width; elsewhere it is cut after `max` characters, with the rest
 * behind a button.
 */
export function HostileText({ text, max = 300, line = false, className = '' }: HostileTextProps) {
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
  return (
    <bdi className="hostile">
      <Shown text={hidden > 0 ? text.slice(0, max) : text} />
      {hidden > 0 && (
        <Button kind="plain" onClick={() => setOpen(true)}>
          … {hidden.toLocaleString('en')} more characters
        </Button>
      )}
    </bdi>
  )
}
