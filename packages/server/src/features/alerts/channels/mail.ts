import { createHash } from 'node:crypto'
import type { ChannelSettings } from '@wardline/contract'
import type { Message } from '../message.ts'
import type { Sender } from './channel.ts'
import { bodyLines, type MessageLines, messageLines } from './message-lines.ts'
import { unlinked } from './unlinked.ts'

/** Ten alerts at their full length: mail has no limit that matters here. */
const room = 20_000

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (character) => entities[character] ?? character)

function htmlText(lines: MessageLines): string {
  const { headline, note, alerts, rest } = lines
  const paragraph = (text: string | null) => (text === null ? '' : `<p>${escaped(text)}</p>\n`)
  const items = alerts.map((alert) => `<li>${escaped(alert)}</li>\n`).join('')
  return [
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
    // Phones make links of digits and dates otherwise.
    '<meta name="format-detection" content="telephone=no,date=no,address=no,email=no,url=no"></head><body>\n',
    `<p><strong>${escaped(headline)}</strong></p>\n${paragraph(note)}`,
    items === '' ? '' : `<ul>\n${items}</ul>\n`,
    `${paragraph(rest)}</body></html>\n`,
  ].join('')
}

/** A domain that no host can have (RFC 2606, section 2), so that ids of two deployments never meet. */
const messageId = (name: string, { deployment }: Sender): string => `<${name}@${deployment}.wardline.invalid>`

/** All mails of a group answer one that was never sent: mail programs show them as one thread. The group may hold any text. */
const threadId = (group: string, sender: Sender): string =>
  messageId(`group.${createHash('sha256').update(group).digest('hex').slice(0, 32)}`, sender)

/**
 * A message as a mail, in the form that nodemailer takes. The same for every try: mail systems know doubles by the
 * Message-ID. Mail programs make links of bare domains, so texts hold none.
 */
export function mailOf(message: Message, { from, to }: ChannelSettings['email'], sender: Sender) {
  const lines = messageLines(message, { room, change: unlinked })
  const thread = message.group === null ? {} : { inReplyTo: threadId(message.group, sender) }
  // Given as objects: addresses as text would be taken apart by a grammar that knows comments and groups.
  const sent = { from: { name: '', address: from }, to: to.map((address) => ({ name: '', address })) }
  return {
    envelope: sent,
    from: { name: 'Wardline', address: from },
    to: sent.to,
    subject: lines.headline,
    date: new Date(message.created_at),
    messageId: messageId(message.id, sender),
    ...thread,
    ...(thread.inReplyTo === undefined ? {} : { references: thread.inReplyTo }),
    headers: {
      // RFC 3834, section 5: nobody's holiday answers this.
      'Auto-Submitted': 'auto-generated',
      'X-Wardline-Message': message.id,
    },
    text: [lines.headline, ...bodyLines(lines)].map((line) => `${line}\n`).join(''),
    html: htmlText(lines),
  }
}
