import { useState } from 'react'
import { Button } from './button.tsx'

/** Copies a text, and shows whether the browser allowed it. */
export function CopyButton({ name, text }: { name: string; text: string }) {
  const [word, setWord] = useState('')
  return (
    <Button
      onClick={() =>
        // Outside a secure context, such as on http://10.0.0.5, a page may not write to the clipboard.
        void Promise.resolve(navigator.clipboard?.writeText(text)).then(
          () => setWord(navigator.clipboard ? 'Copied' : 'Not possible without HTTPS: select the text'),
          () => setWord('Not allowed here: select the text'),
        )
      }
    >
      <span role="status">{word || name}</span>
    </Button>
  )
}
