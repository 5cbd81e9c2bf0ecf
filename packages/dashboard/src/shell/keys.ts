import { useEffect, useRef } from 'react'

/** What a key does: `g f` is one key after the other, `K` is Shift and k. */
type KeyActions = Record<string, () => void>

/** The second key of a pair comes within this time. */
const pairMs = 1_000

const layers: { current: KeyActions }[] = []
let first: { key: string; at: number } | undefined

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable ||
    /^(TEXTAREA|SELECT)$/.test(target.tagName) ||
    (target instanceof HTMLInputElement && target.type !== 'checkbox'))

function press(event: KeyboardEvent): void {
  const isCommand = (event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 'k'
  if (!isCommand && (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target))) return
  // A dialog has the keyboard for itself.
  if (document.querySelector('dialog[open]')) return
  const key = isCommand ? 'mod k' : event.key
  const pair = first && event.timeStamp - first.at < pairMs ? `${first.key} ${key}` : key
  first = { key, at: event.timeStamp }
  // `g k` opens a screen also where `k` alone goes to the previous row.
  const action = actionOf(pair) ?? actionOf(key)
  if (!action) return
  // Enter and space belong to the button or link that has the focus.
  if (key === 'Enter' && event.target instanceof HTMLElement && /^(A|BUTTON)$/.test(event.target.tagName)) return
  event.preventDefault()
  first = undefined
  action()
}

const actionOf = (key: string) => layers.findLast((layer) => layer.current[key])?.current[key]

/** Keys of a screen, while it is shown. Those of what was shown last come first. */
export function useKeys(actions: KeyActions): void {
  const layer = useRef(actions)
  layer.current = actions
  useEffect(() => {
    if (layers.length === 0) addEventListener('keydown', press)
    layers.push(layer)
    return () => {
      layers.splice(layers.indexOf(layer), 1)
      if (layers.length === 0) removeEventListener('keydown', press)
    }
  }, [])
}
