import { type ChannelSettings, type ChannelType, channelTypes } from '@wardline/contract'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  anyMessage,
  belowByKind,
  belowLines,
  chatMessage,
  deliverOnce,
  hitFacts,
  hostileTexts,
  longestMessages,
  messagesByKind,
  saidByKind,
  saying,
  testSender,
} from '../../../testing/chat.ts'
import { allChannels } from './all-channels.ts'
import type { HttpChannel } from './channel.ts'
import type { Message } from './message.ts'
import { secretRemover, secretsOfSettings } from './without-secrets.ts'

// What holds for every channel that speaks HTTP. What is special to a medium is in its own file.

type Kind = Message['kind']
// biome-ignore lint/suspicious/noExplicitAny: media have different bodies
type Body = any
type Answer = Parameters<typeof deliverOnce>[2]

interface Chat {
  /** Returns the body that shows these lines, as `written` has them. */
  body(kind: Kind, headline: string, lines: string[]): object
  /** Writes a text that is harmless in every medium. */
  written?(text: string): string
  /** Returns the line of the only alert. */
  line(body: Body): string
  /** Matches what the medium would obey, beside links and hidden characters. */
  obeyed?: RegExp
  /** Fails for a body that is too long. */
  fits(body: Body): void
}

interface Case<Type extends ChannelType> {
  settings: ChannelSettings[Type]
  /** Path of the request of an alert. */
  path: string
  headers?: Record<string, string>
  accepted: Answer[]
  refused: [answer: Answer, error: string][]
  chat?: Chat
}

const ok = (body = '') => ({ status: 200, body })
const page = '<html>Sign in</html>'
const url = (path: string) => `https://receiver.example.com:8443${path}`

const text = (value: string) => ({ type: 'rich_text_section', elements: [{ type: 'text', text: value }] })
const slackElements = (kind: Kind, lines: string[]): object[] => {
  const { done, commands, link } = belowByKind[kind]
  const alerts = lines.filter((line) => line.includes(' UTC · '))
  const list = { type: 'rich_text_list', style: 'bullet', elements: alerts.map(text) }
  const command = (value: string) => [
    { type: 'text', text: 'Next: ' },
    { type: 'text', text: value, style: { code: true } },
  ]
  const sections = [
    ...lines.flatMap((line): object[] => (line === alerts[0] ? [list] : alerts.includes(line) ? [] : [text(line)])),
    ...(done === null ? [] : [text(done)]),
    ...commands.map((value) => ({ type: 'rich_text_section', elements: command(value) })),
  ]
  return [...sections, { type: 'rich_text_section', elements: [{ type: 'link', url: link, text: 'Open in Wardline' }] }]
}

const teamsRun = (value: string, look: object = {}) => ({
  type: 'RichTextBlock',
  spacing: 'Small',
  inlines: [{ type: 'TextRun', text: value, ...look }],
})

/** Commands, and lines with texts of others, are code: Telegram would turn parts of them into links. */
function telegramEntities(lines: string[], kind: Kind) {
  const entities = [{ type: 'bold', offset: 0, length: lines[0]!.length }]
  let offset = 0
  for (const line of lines) {
    const command = belowByKind[kind].commands.find((one) => line === `Next: ${one}`)
    if (command) entities.push({ type: 'code', offset: offset + 'Next: '.length, length: command.length })
    else if (line.includes(' UTC · ') || line === 'Done so far: nothing')
      entities.push({ type: 'code', offset, length: line.length })
    offset += line.length + 1
  }
  return entities
}

const discordColors = { alert: 0x8e1b3a, digest: 0xf5a623, reminder: 0xd92d20, resolved: 0x2e9e5b } as const
const discordEscaped = (value: string) => value.replaceAll(/[\\*_~`|>#\-+[\]()<:@]/g, '\\$&')
const defanged = (value: string) => value.replace('113.7', '113[.]7')
const ntfyLooks: Record<Kind, [priority: number, tag: string]> = {
  alert: [5, 'rotating_light'],
  digest: [3, 'warning'],
  reminder: [4, 'red_circle'],
  resolved: [2, 'white_check_mark'],
  test: [3, 'information_source'],
  check: [2, 'information_source'],
}
const appriseTypes = { alert: 'failure', digest: 'warning', reminder: 'failure', resolved: 'success' } as const

const isShort = (value: string, maximum: number) => expect(value.length).toBeLessThanOrEqual(maximum)
const notDelivered = 'The response of the receiver is not ok.'
const withoutCode = 'The receiver answered 200 without the code 0 of an HTTP Event Collector.'

const cases: { [Type in Exclude<ChannelType, 'email' | 'syslog'>]: Case<Type> } = {
  slack: {
    settings: { url: url('/services/T0/B0/secret') },
    path: '/services/T0/B0/secret',
    accepted: [ok('ok')],
    refused: [
      [ok(page), notDelivered],
      [ok(), notDelivered],
      [{ status: 201, body: 'ok' }, notDelivered],
    ],
    chat: {
      body: (kind, headline, lines) => ({
        text: headline,
        blocks: [
          { type: 'header', text: { type: 'plain_text', text: headline, emoji: false } },
          { type: 'rich_text', elements: slackElements(kind, lines) },
        ],
        unfurl_links: false,
        unfurl_media: false,
      }),
      line: ({ blocks }) => blocks[1].elements[0].elements[0].elements[0].text,
      fits({ text: fallback, blocks }) {
        const texts = JSON.stringify(blocks.slice(1)).matchAll(/"text":"((?:[^"\\]|\\.)*)"/g)
        const parts = [...texts].map(([, quoted]) => JSON.parse(`"${quoted}"`) as string)
        isShort(blocks, 50)
        isShort(blocks[0].text.text, 150)
        isShort(parts.join(''), 3_000)
        isShort(fallback, 3_000)
        expect(parts).not.toContain('')
      },
    },
  },
  discord: {
    settings: { url: url('/api/webhooks/1/secret?thread_id=5') },
    // Without `wait`, Discord responds with 204 even if it does not store the message.
    path: '/api/webhooks/1/secret?thread_id=5&wait=true',
    accepted: [ok('{"id":"9007199254740993","type":0}')],
    refused: [{ status: 204 }, ok(page), ok('null')].map((answer) => [
      answer,
      'The response of the receiver does not contain the stored message.',
    ]),
    chat: {
      written: discordEscaped,
      body: (kind, title, lines) => ({
        content: '',
        embeds: [
          {
            title,
            url: belowByKind[kind].link,
            description: [
              ...lines,
              ...belowLines(kind)
                .slice(0, -1)
                .map((line) => (line.startsWith('Next: ') ? line.replace(/ (.*)/, ' `$1`') : discordEscaped(line))),
            ].join('\n'),
            color: kind === 'test' || kind === 'check' ? 0x3b82f6 : discordColors[kind],
            timestamp: '2026-01-15T12:00:30.000Z',
          },
        ],
        allowed_mentions: { parse: [] },
      }),
      line: ({ embeds }) => embeds[0].description.split('\n')[0],
      obeyed: /(?<!\\)(?:\\\\)*[*_~`|>#\-+[\]()<:@]/,
      fits({ embeds: [{ title, description }] }) {
        isShort(title, 256)
        isShort(description, 4_096)
        const commands = /\nNext: `[a-z0-9_ -]+`(?=\n|$)/g
        const halves = `${title}\n${description.replaceAll(commands, '')}`.replaceAll(/\\[\\*_~`|>#\-+[\]()<:@]/g, '')
        expect(halves).not.toContain('\\')
        expect(description.isWellFormed()).toBe(true)
      },
    },
  },
  teams: {
    settings: { url: url('/workflows/1/triggers/manual/paths/invoke?sig=secret') },
    path: '/workflows/1/triggers/manual/paths/invoke?sig=secret',
    accepted: [ok(), { status: 202 }],
    refused: [{ ...ok(page), headers: { 'content-type': 'text/html; charset=utf-8' } }, { status: 204 }].map(
      (answer) => [answer, 'The response of the receiver is not from a Workflow.'],
    ),
    chat: {
      body(kind, headline, lines) {
        const { done, commands, link } = belowByKind[kind]
        const content = {
          $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
          type: 'AdaptiveCard',
          version: '1.4',
          fallbackText: headline,
          msteams: { width: 'Full' },
          body: [
            teamsRun(headline, { size: 'Medium', weight: 'Bolder' }),
            ...[...lines, ...(done === null ? [] : [done])].map((line) => teamsRun(line)),
            ...commands.map((command) => teamsRun(command, { fontType: 'Monospace' })),
          ],
          actions: [{ type: 'Action.OpenUrl', title: 'Open in Wardline', url: link }],
        }
        const contentType = 'application/vnd.microsoft.card.adaptive'
        return { type: 'message', attachments: [{ contentType, contentUrl: null, content }] }
      },
      line: ({ attachments }) => attachments[0].content.body[1].inlines[0].text,
      // Text runs have no markdown, but functions of templates work in them.
      obeyed: /\{\{/,
      fits(body) {
        const runs = body.attachments[0].content.body.flatMap(({ inlines }: { inlines: object[] }) => inlines)
        for (const encoding of ['utf8', 'utf16le'] as const)
          expect(Buffer.byteLength(JSON.stringify(body), encoding)).toBeLessThanOrEqual(28_000)
        expect(new Set(runs.map(({ type }: { type: string }) => type))).toEqual(new Set(['TextRun']))
        expect(JSON.stringify(runs)).not.toContain('{{')
      },
    },
  },
  telegram: {
    settings: { token: '123456:secret-token', chat_id: '-1001234567890' },
    path: '/bot123456:secret-token/sendMessage',
    accepted: [ok('{"ok":true,"result":{"message_id":1}}')],
    refused: ['{"ok":false,"description":"no"}', page, '{}', '[]'].map((body) => [
      ok(body),
      'The response of Telegram is not ok.',
    ]),
    chat: {
      body(kind, headline, lines) {
        const all = [headline, ...lines, ...belowLines(kind)]
        return {
          chat_id: '-1001234567890',
          text: all.join('\n'),
          entities: telegramEntities(all, kind),
          link_preview_options: { is_disabled: true },
          disable_notification: kind === 'resolved' || kind === 'check',
        }
      },
      line: ({ text: shown }) => shown.split('\n')[1],
      fits({ text: shown, entities }) {
        isShort(shown, 4_096)
        isShort(entities, 100)
      },
    },
  },
  ntfy: {
    settings: { url: url('/on-call'), token: 'tk_secret' },
    path: '/',
    headers: { authorization: 'Bearer tk_secret' },
    accepted: [ok('{"id":"hwQ2YpKdmg","time":1635528741,"event":"message","topic":"on-call"}')],
    refused: [page, '', '{}'].map((body) => [ok(body), 'The response of the receiver is not from ntfy.']),
    chat: {
      written: defanged,
      body: (kind, headline, lines) => ({
        topic: 'on-call',
        title: headline.replace(/^\S+ /, ''),
        message: [...lines, ...belowLines(kind)].join('\n'),
        priority: ntfyLooks[kind][0],
        tags: [ntfyLooks[kind][1]],
        click: belowByKind[kind].link,
      }),
      line: ({ message }) => message.split('\n')[0],
      obeyed: /\w\.\w|\w@/,
      // ntfy turns a longer message into an attachment, of which a notification does not show the text.
      fits: ({ message }) => expect(Buffer.byteLength(message)).toBeLessThanOrEqual(4_096),
    },
  },
  apprise: {
    settings: { url: url('/notify/secret-key'), tags: 'on-call' },
    path: '/notify/secret-key',
    headers: { accept: 'application/json' },
    accepted: [ok('{"error":""}')],
    refused: [
      [{ status: 204 }, 'Apprise has no service stored under this key.'],
      [{ status: 424 }, 'Apprise could not deliver to one or more of its services.'],
      [{ status: 202 }, 'The receiver answered 202, not 200.'],
    ],
    chat: {
      written: defanged,
      body: (kind, title, lines) => ({
        title,
        body: [...lines, ...belowLines(kind)].join('\n'),
        type: kind === 'test' || kind === 'check' ? 'info' : appriseTypes[kind],
        format: 'text',
        tag: 'on-call',
      }),
      line: ({ body }) => body.split('\n')[0],
      // A service behind Apprise may turn domains into links or notify people who are mentioned.
      obeyed: /\w\.\w|@\w|@[!&]/,
      fits: ({ body }) => isShort(body, 4_096),
    },
  },
  pagerduty: {
    settings: { routing_key: '0123456789abcdef0123456789abcdef' },
    path: '/v2/enqueue',
    accepted: [{ status: 202, body: '{"status":"success"}' }],
    refused: [[ok('{}'), 'The receiver answered 200, where PagerDuty answers 202.']],
  },
  webhook: {
    settings: { url: url('/in?team=blue') },
    path: '/in?team=blue',
    accepted: [ok(), { status: 204 }],
    refused: [],
  },
  splunk: {
    settings: { url: url(''), token: 'B5A79AAD-D822-46CC-80D1-819F80D7BFB0' },
    path: '/services/collector/event',
    headers: { authorization: 'Splunk B5A79AAD-D822-46CC-80D1-819F80D7BFB0' },
    accepted: [ok('{"text":"Success","code":0}'), ok('{"text":"Success","code":0,"ackId":1}')],
    refused: [
      [ok('{"text":"Server is busy","code":9}'), 'Splunk answered with code 9 (Server is busy).'],
      [{ status: 503, body: '{"text":"Server is busy","code":9}' }, 'Splunk answered with code 9 (Server is busy).'],
      [{ status: 403, body: '{"text":"Invalid token","code":4}' }, 'Splunk answered with code 4 (Invalid token).'],
      ...[page, '', 'null', '{"code":"0"}'].map((body): [Answer, string] => [ok(body), withoutCode]),
    ],
  },
}

it('every kind of channel is tested here or speaks another protocol', () => {
  const others = channelTypes.filter((type) => 'deliver' in allChannels[type])
  expect([...Object.keys(cases), ...others].sort()).toEqual([...channelTypes].sort())
})

describe.each(Object.entries(cases) as [ChannelType, Case<ChannelType>][])('%s', (type, given) => {
  const { settings, path, accepted, refused, chat } = given
  const channel = allChannels[type] as HttpChannel
  const request = (message: Message) => channel.request(message, settings, testSender)
  const bodyOf = (message: Message): Body => JSON.parse(request(message).body)
  const judged = ({ status, headers = {}, body = '' }: Answer) => channel.judge({ status, headers, body })

  it.each(accepted)('delivers with the answer %o', async (answer) => {
    const { verdict, received } = await deliverOnce(channel, settings, answer)
    const { reference: _, ...said } = verdict
    expect(said).toEqual({ delivered: true, status: answer.status, answer: answer.body ?? '', error: null })
    expect(received).toMatchObject({ path, body: request(messagesByKind.alert).body, headers: given.headers ?? {} })
  })

  const failed = [302, 400, 500].map((status): [Answer, string] => [{ status }, `The receiver answered ${status}.`])
  it.each([...refused, ...failed])('is not delivered with the answer %o', (answer, error) => {
    const { status, body = '' } = answer
    expect(judged(answer)).toEqual({ delivered: false, status, answer: body, error })
  })

  it('waits as long as Retry-After says, and stops after a 410', () => {
    expect(judged({ status: 429, headers: { 'retry-after': '30' } })).toMatchObject({
      delivered: false,
      retryAfterSeconds: 30,
    })
    expect(judged({ status: 410 })).toMatchObject({ delivered: false, gone: true })
  })

  // A line break in a header would add another one, such as `Click` of ntfy.
  it('has no text of an event in its address and headers', () => {
    const hostile = saying('a\r\nClick: https://evil.com')
    const parts = ({ url: address, headers }: ReturnType<typeof request>) => [address, Object.keys(headers)]
    expect(parts(request({ ...hostile, title: 'b\r\nX: y', group: 'c\r\nX: y' }))).toEqual(
      parts(request(chatMessage())),
    )
    expect(JSON.stringify(request(hostile).headers)).not.toContain('Click')
    expect(request(hostile).headers).toMatchObject({ 'user-agent': 'Wardline/1.2.3', ...given.headers })
  })

  it('sends the same bytes at every attempt, and no secret that its content must hide', () => {
    expect(request(messagesByKind.alert)).toEqual(request(messagesByKind.alert))
    const fields = Object.entries(bodyOf(messagesByKind.alert)).filter(([name]) => !channel.confided?.includes(name))
    const content = JSON.stringify(Object.fromEntries(fields))
    expect(secretRemover(secretsOfSettings(settings))(content, content.length)).toBe(content)
  })

  if (!chat) return
  const { written = (value: string) => value } = chat

  it.each(Object.keys(messagesByKind) as Kind[])('has the expected body for kind %s', (kind) => {
    const { mark, title, lines } = saidByKind[kind]
    expect(bodyOf(messagesByKind[kind])).toEqual(chat.body(kind, written(`${mark} ${title}`), lines.map(written)))
  })

  // A compromised agent could mention people, hide its alert behind formatting, or lure readers to a link.
  it.each(Object.entries(hostileTexts))('shows %s in an event literally', (_, hostile) => {
    const body = bodyOf(saying(hostile))
    const line = chat.line(body)
    expect(body).toEqual(chat.body('alert', written('🚨 honeypot_triggered on bot-1'), [line]))
    expect(line.startsWith(`${written(hitFacts)} · `)).toBe(true)
    const said = line.slice(written(hitFacts).length + 3)
    expect(said).not.toMatch(/:\/\/|[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
    if (chat.obeyed) expect(said).not.toMatch(chat.obeyed)
  })

  it('stays within the limits of its medium', () => {
    fc.assert(
      fc.property(anyMessage, (message) => void chat.fits(bodyOf(message))),
      { examples: longestMessages },
    )
  })
})
