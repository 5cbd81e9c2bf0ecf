import { type CharacterSize, cutText, utf16Size } from '@wardline/text'
import { isoTime } from '../../../clock.ts'
import { isClaimed, type Severity } from '../outbox/alert.ts'
import type { Sender } from './channel.ts'
import type { DecoyContext, DeliveredAlert, Message } from './message.ts'
import { dashboardLink, nextCommands } from './next-commands.ts'
import { plainText } from './plain-text.ts'

/** They differ in shape, not only in colour; the word stands in every alert's line as well. */
const severityMarks: Record<Severity, string> = { breach: '🚨', critical: '🔴', warning: '⚠️', info: 'ℹ️' }

/** What a reader has to know besides the title. */
const notes: Record<Message['kind'], string | null> = {
  alert: null,
  digest: 'These alerts were delayed until now.',
  reminder: 'No one has acknowledged this alert.',
  resolved: 'This alert is resolved.',
  test: 'This test was requested by an operator. No action is needed.',
  check: 'This daily message shows that alerts arrive here. No action is needed.',
}

/** Sent without a sound. */
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
  /** What was done already about a single problem. */
  done: string | null
  /** Commands to copy, made of ids alone. */
  commands: string[]
  /** Of the dashboard. */
  link: string | null
}

interface Medium {
  /** What the lines of alerts and all below them may cost together; each alert gets an equal share. */
  room: number
  /** Default: UTF-16 units. */
  size?: CharacterSize
  /** What else has to be done to texts there. */
  change?: (text: string) => string
}

/** Beside others an alert gets a short line; alone it may take more. */
const maxTogether = 200
const maxAlone = 1_000

/** `2026-01-15 12:00:30`, without the date when the message is of the same day. */
function timeText(at: number, messageAt: number): string {
  const [date, time] = isoTime(at).slice(0, 19).split('T')
  return isoTime(messageAt).startsWith(`${date}T`) ? `${time}` : `${date} ${time}`
}

/** Text of unknown origin, between facts: it must not look like another fact. */
const between = (text: string, maxLength: number): string => plainText(text.replaceAll('·', '-'), maxLength)

function agentText({ instance_id, instance_name }: DeliveredAlert): string {
  const id = plainText(instance_id ?? '', 64)
  const name = between(instance_name ?? '', 80)
  return name === '' || name === id ? id : `${id} (${name})`
}

const keyKind = ({ type, key_type }: DecoyContext): string =>
  type === 'api_key' ? `${key_type ?? 'unknown'} key` : 'path'
export const decoyText = (decoy: DecoyContext): string =>
  between(decoy.label ?? `${keyKind(decoy)} planted at ${decoy.instance_id}`, 200)

/** Named, since they look alike. */
function namedFacts({ decoys, tool, ip_address, key, suspension }: DeliveredAlert, isAlone: boolean): string[] {
  const [decoy, ...others] = decoys
  return [
    decoy === undefined ? '' : `decoy: ${decoyText(decoy)}${others.length > 0 ? ` and ${others.length} more` : ''}`,
    tool === null ? '' : `tool: ${between(tool, 100)}`,
    key === null ? '' : `key: ${between(key.name, 100)}`,
    ip_address === null ? '' : `from: ${plainText(ip_address, 64)}`,
    suspension === null || isAlone ? '' : 'suspended by now',
  ]
}

/** The description comes last: it is the longest, and the only part that is cut where room is scarce. */
function alertText(alert: DeliveredAlert, message: Message): string {
  const maxLength = message.alerts.length > 1 ? maxTogether : maxAlone
  const type = `${isClaimed(alert) ? 'claimed by a caller: ' : ''}${plainText(alert.event_type, 100)}`
  const facts = [alert.severity, agentText(alert), type, ...namedFacts(alert, message.group !== null)]
  const texts = [...facts, plainText(alert.description, maxLength)].filter((text) => text !== '')
  return `${timeText(alert.created_at, message.created_at)} UTC · ${texts.join(' · ')}`
}

/** What was done about the problem that the message is about; a digest is about many. */
export function doneText({ kind, group, alerts, created_at }: Message): string | null {
  const newest = alerts.at(-1)
  if (newest === undefined || group === null) return null
  const { suspension } = newest
  if (suspension === null) return kind === 'resolved' ? null : 'Done so far: nothing'
  const { by, at, reason, confirmed } = suspension
  const who = by === null ? '' : ` by ${plainText(by, 100)}`
  const when = at === null ? '' : ` at ${timeText(at, created_at)} UTC`
  const why = reason === null ? '' : `: ${plainText(reason, 200)}`
  return `Done so far: suspended${who}${when}, ${confirmed ? '' : 'not yet '}confirmed by the agent${why}`
}

/** The title without its severity mark, for media that show one. */
export const titleText = (message: Message, { change = (text) => text }: Pick<Medium, 'change'> = {}): string =>
  change(plainText(message.title, 200))

export const commandLabel = 'Next: '
/** Of a link, where a medium shows a text instead of its address. */
export const openLabel = 'Open in Wardline'

const costOf = (text: string, size: CharacterSize): number => {
  let cost = size('\n')
  for (const character of text) cost += size(character)
  return cost
}

export function messageLines(message: Message, { publicUrl }: Pick<Sender, 'publicUrl'>, medium: Medium): MessageLines {
  const { room, size = utf16Size, change = (text) => text } = medium
  const done = doneText(message)
  const below = {
    done: done === null ? null : change(done),
    commands: nextCommands(message),
    link: dashboardLink(message, publicUrl),
  }
  const left = belowLines(below).reduce((rest, line) => rest - costOf(line, size), room)
  const mark = message.kind === 'resolved' ? '✅' : severityMarks[message.severity]
  const share = Math.floor(left / Math.max(1, message.alerts.length))
  return {
    headline: `${mark} ${titleText(message, medium)}`,
    note: notes[message.kind],
    alerts: message.alerts.map((alert) => cutText(change(alertText(alert, message)), share, size)),
    rest: message.more > 0 ? `+${message.more} more` : null,
    ...below,
  }
}

const belowLines = ({ done, commands, link }: Pick<MessageLines, 'done' | 'commands' | 'link'>): string[] =>
  [done, ...commands.map((command) => `${commandLabel}${command}`), link].filter((line) => line !== null)

/** All between the headline and what to do. */
export const alertLines = ({ note, alerts, rest }: MessageLines): string[] =>
  [note, ...alerts, rest].filter((line) => line !== null)

/** All but the headline. */
export const bodyLines = (lines: MessageLines): string[] => [...alertLines(lines), ...belowLines(lines)]
