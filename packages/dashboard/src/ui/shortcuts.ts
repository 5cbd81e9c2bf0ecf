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

interface Typed {
  text: string
  /** Whether Enter was pressed. Nothing is kept after it. */
  isEntered: boolean
}
let held: Typed | undefined
let leave: () => void = () => {}

function hold(event: KeyboardEvent): void {
  const { key } = event
  if (!held || event.metaKey || event.ctrlKey || event.altKey || key === 'Tab' || key === 'Shift') return
  event.preventDefault()
  event.stopImmediatePropagation()
  if (key === 'Escape') {
    const close = leave
    takeTyped()
    close()
  } else if (held.isEntered) return
  else if (key === 'Enter') held.isEntered = true
  else if (key === 'Backspace') held.text = held.text.slice(0, -1)
  else if (key.length === 1) held.text += key
}

/**
 * Keeps what is typed from now on for a field that is not on the screen yet, until the field takes it with `takeTyped`.
 * Its dialog may have to be loaded, and moves the focus a moment after it is there. Escape calls `onEscape`.
 */
export function holdTyped(onEscape: () => void): void {
  held = { text: '', isEntered: false }
  leave = onEscape
  addEventListener('keydown', hold, true)
}

/** Returns what was typed since `holdTyped`, once. From now on keys go where the focus is. */
export function takeTyped(): Typed {
  removeEventListener('keydown', hold, true)
  const typed = held ?? { text: '', isEntered: false }
  held = undefined
  return typed
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
