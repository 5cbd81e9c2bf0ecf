import { useSyncExternalStore } from 'react'
import { readStored, store } from '../data/storage.ts'

type Zone = 'local' | 'utc'

const stored = 'wardline.zone'
let zone: Zone = readStored(stored) === 'utc' ? 'utc' : 'local'
const listeners = new Set<() => void>()

export function switchZone(): void {
  zone = zone === 'utc' ? 'local' : 'utc'
  store(stored, zone)
  for (const listen of listeners) listen()
}

export const useZone = (): Zone =>
  useSyncExternalStore(
    (changed) => {
      listeners.add(changed)
      return () => void listeners.delete(changed)
    },
    () => zone,
  )

const formats = new Map<string, Intl.DateTimeFormat>()
function format(of: Zone, options: Intl.DateTimeFormatOptions, at: number): string {
  const key = of + JSON.stringify(options)
  const known = formats.get(key)
  const made = known ?? new Intl.DateTimeFormat('en-GB', { ...options, ...(of === 'utc' ? { timeZone: 'UTC' } : {}) })
  if (!known) formats.set(key, made)
  return made.format(at)
}

const clock = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const
const day = { day: 'numeric', month: 'short' } as const

export const timeText = (of: Zone, at: number): string => format(of, clock, at)
export const millisecondText = (of: Zone, at: number): string => format(of, { ...clock, fractionalSecondDigits: 3 }, at)
export const dayTimeText = (of: Zone, at: number): string => `${format(of, day, at)} ${format(of, clock, at)}`

const sameDay = (of: Zone, one: number, other: number) => format(of, day, one) === format(of, day, other)

/** Shows an instant: the time if it is today, else also the day; a dash if there is none. */
export function Time({ at, now = Date.now() }: { at: string | null; now?: number }) {
  const of = useZone()
  if (at === null) return '–'
  const time = Date.parse(at)
  return (
    <time dateTime={at} title={at} className="mono">
      {sameDay(of, time, now) ? timeText(of, time) : dayTimeText(of, time)}
    </time>
  )
}

let now = Date.now()
/** Re-renders every component that counts seconds once a second. */
function onSecond(changed: () => void): () => void {
  const timer = setInterval(() => {
    now = Date.now()
    changed()
  }, 1_000)
  return () => clearInterval(timer)
}
export const useNow = (): number => useSyncExternalStore(onSecond, () => now)
