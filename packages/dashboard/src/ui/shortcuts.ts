import { useEffect, useRef } from 'react'

/** Actions by key: `g f` is one key after the other, `K` is Shift and k. */
type KeyActions = Record<string, () => void>

/** The key that shortcuts use, as this system calls it. */
export const commandKey = /Mac|iP(hone|ad|od)/.test(navigator.platform) ? '⌘' : 'Ctrl '

/** Maximum time between the two keys of a pair. */
const pairMs = 1_000

const layers: { current: KeyActions }[] = []
let first: { key: string; at: number } | undefined

/** Whether the keys are text for the element. */
export const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable ||
    /^(TEXTAREA|SELECT)$/.test(target.tagName) ||
    (target instanceof HTMLInputElement && target.type !== 'checkbox'))

function press(event: KeyboardEvent): void {
  const isCommand = (event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 'k'
  if (!isCommand && (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target))) return
  // An open dialog gets all keys.
  if (document.querySelector('dialog[open], [role=dialog], [role=menu]')) return
  const key = isCommand ? 'mod k' : event.key
  const pair = first && event.timeStamp - first.at < pairMs ? `${first.key} ${key}` : key
  first = { key, at: event.timeStamp }
  // Pairs first: `g k` opens a screen even if `k` alone goes to the previous row.
  const action = actionOf(pair) ?? actionOf(key)
  if (!action) return
  // Enter activates the focused button or link.
  if (key === 'Enter' && event.target instanceof HTMLElement && /^(A|BUTTON)$/.test(event.target.tagName)) return
  event.preventDefault()
  first = undefined
  action()
}

const actionOf = (key: string) => layers.findLast((layer) => layer.current[key])?.current[key]

/** Registers a component's keys while it is mounted. The most recently mounted has precedence. */
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
