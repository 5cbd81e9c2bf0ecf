import { alertTypes, descriptionOf, mailLimits, type Severity } from '@wardline/contract'
import { type CharacterSize, cutText, utf16Size } from '@wardline/text'
import { isoTime } from '../../../clock.ts'
import { isClaimed } from '../outbox/alert.ts'
import type { Sender } from './channel.ts'
import type { DecoyContext, DeliveredAlert, Message, Personal } from './message.ts'
import { dashboardLink, nextCommands, publicAddress } from './next-commands.ts'
import { plainText } from './plain-text.ts'

/** The marks differ in shape and not only in color, and every alert's line has the severity as a word. */
const severityMarks: Record<Severity, string> = { breach: '🚨', critical: '🔴', warning: '⚠️', info: 'ℹ️' }

/** Explanation below the title. */
const notes: Record<Message['kind'], string | null> = {
  alert: null,
  digest: 'These alerts were delayed until now.',
  reminder: 'No one has acknowledged this alert.',
  resolved: 'This alert is resolved.',
  test: 'This test was requested by an operator. No action is needed.',
  check: 'This daily message shows that alerts arrive here. No action is needed.',
}

/** What is left of an incident whose agent has stopped or was resumed; null if nothing is. */
export const openOf = ({ kind, alerts }: Message): DeliveredAlert['open'] =>
  kind === 'resolved' ? (alerts.at(-1)?.open ?? null) : null

function noteOf(message: Message): string | null {
  if (message.personal) {
    return message.personal.heldBack
      ? `Held back until now, because a person gets at most ${mailLimits.perHour} mails an hour.`
      : null
  }
  const open = openOf(message)
  if (open === null) return notes[message.kind]
  return open.severity === 'breach'
    ? 'The breach is still open: acknowledge it.'
    : 'The critical alert about it is still open: acknowledge it.'
}

function whyText({ assigned, tags }: Personal, publicUrl: string | undefined): string {
  const named = tags.length > 0 ? `on an agent with the tag ${tags.join(' or ')}` : ''
  const reason = [assigned ? 'assigned to you' : '', named].filter(Boolean).join(', or ')
  const page = publicUrl === undefined ? 'the page /account' : publicAddress(publicUrl, '/account').href
  return `You get this mail because you chose alerts that are ${reason}. Change or switch it off at ${page}.`
}

/** An agent that works again while its breach is open is neither stopped nor well. */
function endMark(message: Message): string {
  if (openOf(message) === null) return '✅'
  return isStopped(message) ? '🛑' : severityMarks.warning
}

/** Whether the message says that an agent has stopped. */
export const isStopped = ({ alerts }: Message): boolean => alerts.at(-1)?.event_type === alertTypes.killConfirmed

/** Whether the message is sent without a sound. */
export const isQuiet = ({ kind }: Message): boolean => kind === 'resolved' || kind === 'check'

/** The lines of a message for people, from top to bottom, not yet escaped for a medium. */
export interface MessageLines {
  /** Severity mark and title. */
  headline: string
  note: string | null
  /** One for each alert, newest last. */
  alerts: string[]
  /** `+N more`. */
  rest: string | null
  /** The arguments of the call that buttons decide. */
  asked: string | null
  /** What was done so far, for a message about a single problem. */
  done: string | null
  /** Commands to copy, which contain no text of an event but ids and types. */
  commands: string[]
  /** Link to the dashboard. */
  link: string | null
  /** Why a person gets this mail, and where to change it. */
  why: string | null
}

interface Medium {
  /** Maximum size of the lines of alerts and all lines below them; each alert has an equal share. */
  room: number
  /** Default: UTF-16 units. */
  size?: CharacterSize
  /** Applied to texts of unknown origin. */
  change?: (text: string) => string
}

/** Maximum length of a description: shorter if the message has several alerts. */
const maxTogether = 200
const maxAlone = 1_000

/** Returns `2026-01-15 12:00:30`, or only the time if the message is of the same day. */
function timeText(at: number, messageAt: number): string {
  const [date, time] = isoTime(at).slice(0, 19).split('T')
  return isoTime(messageAt).startsWith(`${date}T`) ? `${time}` : `${date} ${time}`
}

/** Sanitizes a text between facts. Facts are separated by `·`, so the text must not contain one. */
const between = (text: string, maxLength: number): string => plainText(text.replaceAll('·', '-'), maxLength)

function agentText({ instance_id, instance_name }: DeliveredAlert): string {
  const id = plainText(instance_id ?? '', 64)
  const name = between(instance_name ?? '', 80)
  return name === '' || name === id ? id : `${id} (${name})`
}

const keyKind = ({ type, key_type }: DecoyContext): string =>
  type === 'api_key' ? `${key_type ?? 'unknown'} key` : 'path'
export const decoyText = (decoy: DecoyContext): string =>
  between(
    decoy.label ??
      `${keyKind(decoy)} ${decoy.instance_id === null ? 'for every agent' : `planted at ${decoy.instance_id}`}`,
    200,
  )

/** Returns facts with a label, because their values look alike. */
function namedFacts(alert: DeliveredAlert, isAlone: boolean): string[] {
  const { decoys, tool, ip_address: reported, observed_ip_address: observed, key, suspension } = alert
  const [decoy, ...others] = decoys
  return [
    decoy === undefined ? '' : `decoy: ${decoyText(decoy)}${others.length > 0 ? ` and ${others.length} more` : ''}`,
    tool === null ? '' : `tool: ${between(tool, 100)}`,
    key === null ? '' : `key: ${between(key.name, 100)}`,
    observed === null ? '' : `from: ${plainText(observed, 64)}`,
    reported === null || reported === observed ? '' : `reported address: ${plainText(reported, 64)}`,
    suspension === null || isAlone ? '' : 'suspended by now',
  ]
}

/** The description comes last, so that it is cut first if the line is too long. */
function alertText(alert: DeliveredAlert, message: Message): string {
  const maxLength = message.alerts.length > 1 ? maxTogether : maxAlone
  const type = `${isClaimed(alert) ? 'claimed by a client: ' : ''}${plainText(alert.event_type, 100)}`
  const facts = [alert.severity, agentText(alert), type, ...namedFacts(alert, message.group !== null)]
  const texts = [...facts, plainText(descriptionOf(alert), maxLength)].filter((text) => text !== '')
  return `${timeText(alert.created_at, message.created_at)} UTC · ${texts.join(' · ')}`
}

/** Returns what was done about the problem; null for a digest, which is about several problems. */
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

/** Returns the title without a severity mark, for media that add one. */
export const titleText = (message: Message, { change = (text) => text }: Pick<Medium, 'change'> = {}): string =>
  change(plainText(message.title, 200))

export const commandLabel = 'Next: '
/** Text of a link, for media that show it instead of the address. */
export const openLabel = 'Open in Wardline'
/** Labels of buttons. */
export const decisionLabels = { approve: 'Approve', deny: 'Deny' } as const

const costOf = (text: string, size: CharacterSize): number => {
  let cost = size('\n')
  for (const character of text) cost += size(character)
  return cost
}

/** Characters of arguments above buttons; longer ones are decided in the dashboard, where they are shown in full. */
export const maxArguments = 600

export function messageLines(
  message: Message,
  { publicUrl, buttons }: Pick<Sender, 'publicUrl' | 'buttons'>,
  medium: Medium,
): MessageLines {
  const { room, size = utf16Size, change = (text) => text } = medium
  const done = doneText(message)
  const below = {
    asked: buttons ? change(`Arguments: ${plainText(buttons.args, maxArguments)}`) : null,
    done: done === null ? null : change(done),
    commands: nextCommands(message),
    link: dashboardLink(message, publicUrl),
    why: message.personal ? whyText(message.personal, publicUrl) : null,
  }
  const left = belowLines(below).reduce((rest, line) => rest - costOf(line, size), room)
  const mark = message.kind === 'resolved' ? endMark(message) : severityMarks[message.severity]
  const share = Math.floor(left / Math.max(1, message.alerts.length))
  return {
    headline: `${mark} ${titleText(message, medium)}`,
    note: noteOf(message),
    alerts: message.alerts.map((alert) => cutText(change(alertText(alert, message)), share, size)),
    rest: message.more > 0 ? `+${message.more} more` : null,
    ...below,
  }
}

const belowLines = ({
  asked,
  done,
  commands,
  link,
  why,
}: Omit<MessageLines, 'headline' | 'note' | 'alerts' | 'rest'>) =>
  [asked, done, ...commands.map((command) => `${commandLabel}${command}`), link, why].filter((line) => line !== null)

/** Returns the lines between the headline and what was done. */
export const alertLines = ({ note, alerts, rest }: MessageLines): string[] =>
  [note, ...alerts, rest].filter((line) => line !== null)

/** Returns all lines except the headline. */
export const bodyLines = (lines: MessageLines): string[] => [...alertLines(lines), ...belowLines(lines)]
