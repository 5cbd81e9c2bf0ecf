import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { descriptionOf, titleOf } from '@wardline/contract'
import { useEffect } from 'react'
import type { Alert } from '../data/alerts.ts'
import { call } from '../data/client.ts'
import { isNotified, readNotifyChoice } from '../data/notify-choice.ts'
import { sessionQuery } from '../data/session.ts'
import { plainText } from '../ui/unseen-characters.ts'

/** Soon enough for a person who does something else, and a fraction of what a visible screen reads. */
const everyMs = 15_000
/** Alerts read at a time. In a storm the older ones are not notified, as most of these. */
const readAlerts = 50
/** More at a time would cover the screen; the last one says that there are more. */
const shownAtOnce = 3
/** Systems cut longer texts at different places. */
const shownText = 120

const cut = (text: string): string => {
  const plain = plainText(text)
  return plain.length > shownText ? `${plain.slice(0, shownText).toWellFormed()}…` : plain
}

/** Returns the ids of the agents with one of the tags, among those of the alerts. Tags that agents give themselves do not count. */
async function findTagged(alerts: readonly Alert[], tags: readonly string[]): Promise<Set<string>> {
  const ids = [...new Set(alerts.flatMap(({ instance_id }) => instance_id ?? []))]
  if (ids.length === 0 || tags.length === 0) return new Set()
  const { instances } = await call('listInstances', { query: { ids: ids.join(), limit: String(readAlerts) } })
  return new Set(
    instances.filter(({ operator_tags }) => operator_tags.some((tag) => tags.includes(tag))).map(({ id }) => id),
  )
}

/** Finds alerts that came up since the last call, according to the choice of the key or person. */
function createFinder(keyId: string): () => Promise<Alert[]> {
  let before: { ids: ReadonlySet<string>; from: number } | undefined
  let head: number | undefined
  const read = async (assigned?: string) =>
    (await call('listAlerts', { query: { status: 'open', assigned, limit: String(readAlerts) } })).alerts
  return async () => {
    const choice = readNotifyChoice(keyId)
    if (!isNotified(choice)) {
      before = undefined
      head = undefined
      return []
    }
    const found = new Map<string, Alert>()
    const mine = choice.assigned ? await read('me') : []
    const newest = choice.tags.length > 0 ? await read() : []
    const since = head
    const fresh = since === undefined ? [] : newest.filter(({ seq }) => seq > since)
    const tagged = await findTagged(fresh, choice.tags)
    for (const alert of fresh) if (tagged.has(alert.instance_id ?? '')) found.set(alert.id, alert)
    // Who has the page in front of them sees what they assign to themselves.
    if (before && !document.hasFocus()) {
      const { ids, from } = before
      for (const alert of mine) if (alert.seq >= from && !ids.has(alert.id)) found.set(alert.id, alert)
    }
    // Below a full page are further ones, which come up when one of it is handled.
    const from = mine.length < readAlerts ? 0 : mine.at(-1)!.seq
    before = choice.assigned ? { ids: new Set(mine.map(({ id }) => id)), from } : undefined
    head = choice.tags.length > 0 ? Math.max(since ?? 0, newest[0]?.seq ?? 0) : undefined
    return [...found.values()]
  }
}

/** Shows notifications of the browser while a tab is open, also a hidden one. */
export function Notifier() {
  const { data: session } = useQuery(sessionQuery)
  const navigate = useNavigate()
  const keyId = session?.key_id
  useEffect(() => {
    if (keyId === undefined || typeof Notification === 'undefined') return
    const find = createFinder(keyId)
    const show = (alert: Alert, more: number) => {
      const rest = more > 0 ? ` And ${more} more.` : ''
      // Each open tab shows it: of several with one tag, the browser keeps the last.
      const body = `${cut(descriptionOf(alert))}${rest}`
      const shown = new Notification(cut(titleOf(alert)), { body, tag: alert.id })
      shown.onclick = () => {
        window.focus()
        shown.close()
        void navigate({ to: '/alerts', search: { alert: alert.id } })
      }
    }
    const look = async () => {
      if (Notification.permission !== 'granted') return
      const alerts = await find()
      for (const [index, alert] of alerts.slice(0, shownAtOnce).entries())
        show(alert, index === shownAtOnce - 1 ? alerts.length - shownAtOnce : 0)
    }
    // A failure is shown where people look, and the next attempt follows. Chrome on Android shows none from a page.
    const lookAgain = () => void look().catch(() => undefined)
    lookAgain()
    const timer = setInterval(lookAgain, everyMs)
    return () => clearInterval(timer)
  }, [keyId, navigate])
  return null
}
