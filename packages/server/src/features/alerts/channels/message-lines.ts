import { isoTime } from '../../../clock.ts'
import type { Message, Severity, ToldAlert } from '../message.ts'
import { isClaimed } from '../resolutions.ts'
import { type CharacterSize, cutText, utf16Size } from './cut-text.ts'
import { plainText } from './plain-text.ts'

/** Told apart by shape, not only by colour; the word stands in every alert's line as well. */
const severityMarks: Record<Severity, string> = { breach: '🚨', critical: '🔴', warning: '⚠️', info: 'ℹ️' }

/** What a reader has to know besides the title. */
const notes: Record<Message['kind'], string | null> = {
  alert: null,
  digest: 'These were held back until now.',
  reminder: 'Nobody has acknowledged this.',
  resolved: 'This is over.',
  test: 'Somebody asked for this test. Nothing has to be done.',
  check: 'This is the daily proof that alerts arrive here. Nothing has to be done.',
}

/** What a person should not be woken up by. */
export const isQuiet = ({ kind }: Message): boolean => kind === 'resolved' || kind === 'check'

/** A message as people read it, from top to bottom; each text is one line. None of it is escaped for a medium yet. */
export interface MessageLines {
  /** Severity mark and title. */
  headline: string
  note: string | null
  /** One for each alert, newest last. */
  alerts: string[]
  /** `+N more`. */
  rest: string | null
}

export interface Medium {
  /** What all lines of alerts may cost together; each gets an equal share. */
  room: number
  /** UTF-16 units unless told. */
  size?: CharacterSize
  /** What else has to be done to texts there. */
  change?: (text: string) => string
}

/** Beside others an alert gets a line to be taken in at a glance; alone it may tell more. */
const mostTogether = 200
const mostAlone = 1_000

/** `2026-01-15 12:00:30`, without the date when the message is of the same day. */
function timeText(at: number, messageAt: number): string {
  const [date, time] = isoTime(at).slice(0, 19).split('T')
  return isoTime(messageAt).startsWith(`${date}T`) ? `${time}` : `${date} ${time}`
}

function alertText(alert: ToldAlert, message: Message): string {
  const most = message.alerts.length > 1 ? mostTogether : mostAlone
  const type = `${isClaimed(alert) ? 'claimed by a caller: ' : ''}${plainText(alert.event_type, 100)}`
  const facts = [alert.severity, plainText(alert.instance_id ?? '', 64), type]
  const texts = [...facts, plainText(alert.description, most)].filter((text) => text !== '')
  return `${timeText(alert.created_at, message.created_at)} UTC · ${texts.join(' · ')}`
}

/** The title by itself, for media that show a mark of their own. */
export const titleText = (message: Message, { change = (text) => text }: Pick<Medium, 'change'> = {}): string =>
  change(plainText(message.title, 200))

export function messageLines(message: Message, medium: Medium): MessageLines {
  const { room, size = utf16Size, change = (text) => text } = medium
  const mark = message.kind === 'resolved' ? '✅' : severityMarks[message.severity]
  const share = Math.floor(room / Math.max(1, message.alerts.length))
  return {
    headline: `${mark} ${titleText(message, medium)}`,
    note: notes[message.kind],
    alerts: message.alerts.map((alert) => cutText(change(alertText(alert, message)), share, size)),
    rest: message.more > 0 ? `+${message.more} more` : null,
  }
}

/** All but the headline. */
export const bodyLines = ({ note, alerts, rest }: MessageLines): string[] =>
  [note, ...alerts, rest].filter((line) => line !== null)
