import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { ChannelType } from '@wardline/contract'
import fc from 'fast-check'
import { anyCharacter } from '../../../../test-servers/any-character.ts'
import type { HttpChannel, Sender, Verdict } from '../features/alerts/channels/channel.ts'
import { type AlertContext, type DeliveredAlert, type Message, noContext } from '../features/alerts/channels/message.ts'
import { unsetColumns } from './events.ts'
import { openEgress } from './receiver.ts'

export const testSender: Sender = {
  deployment: '00112233445566ff',
  version: '1.2.3',
  publicUrl: 'https://wardline.example.com',
  now: Date.UTC(2026, 0, 15, 12, 1),
}

const createdAt = Date.UTC(2026, 0, 15, 12, 0, 30)

const context: AlertContext = {
  instance_name: 'Bot one',
  tool: 'http-request',
  decoys: [{ id: 'd1', label: 'env of the mail bot', type: 'api_key', key_type: 'openai', instance_id: 'bot-1' }],
  key: null,
  suspension: null,
  open: null,
}

/** Text of `deliveredAlert()` before its description. */
export const hitFacts =
  '12:00:30 UTC · breach · bot-1 (Bot one) · honeypot_triggered · decoy: env of the mail bot · tool: http-request · from: 203.0.113.7'

export const deliveredAlert = (changes: Partial<DeliveredAlert> = {}): DeliveredAlert => ({
  ...unsetColumns,
  id: '019bbf6e-0000-7000-8000-000000000001',
  seq: 7,
  severity: 'breach',
  source: 'wardline',
  by_service: true,
  event_type: 'honeypot_triggered',
  description: 'A decoy was used.',
  instance_id: 'bot-1',
  ip_address: '203.0.113.7',
  observed_ip_address: '203.0.113.7',
  event_seq: 41,
  created_at: createdAt,
  ...context,
  ...changes,
})

export const chatMessage = (changes: Partial<Message> = {}): Message => ({
  id: '019bbf6e-0000-7000-8000-0000000000ff',
  kind: 'alert',
  created_at: createdAt,
  severity: 'breach',
  title: 'honeypot_triggered on bot-1',
  group: 'honeypot_triggered bot-1',
  incident: { id: '019bbf6e-0000-7000-8000-0000000000fe', group: 'honeypot_triggered bot-1', place: 0 },
  alerts: [deliveredAlert()],
  more: 0,
  ...changes,
})

/** Returns a message with one alert with this description. */
export const saying = (description: string): Message => chatMessage({ alerts: [deliveredAlert({ description })] })

const bare = { ...noContext, ip_address: null, observed_ip_address: null }

/** One message of each kind, as the service creates it. */
export const messagesByKind: Record<Message['kind'], Message> = {
  alert: chatMessage({
    alerts: [
      deliveredAlert({
        created_at: createdAt - 20_000,
        severity: 'warning',
        event_type: 'tool_blocked',
        instance_id: null,
        ...bare,
      }),
      deliveredAlert(),
    ],
    more: 3,
  }),
  digest: chatMessage({
    kind: 'digest',
    severity: 'warning',
    title: '2 alerts of the last 8 hours',
    group: null,
    incident: null,
    alerts: [
      deliveredAlert({ severity: 'warning', created_at: createdAt - 86_400_000, description: 'Yesterday.', ...bare }),
      deliveredAlert({ severity: 'info', description: '', ...bare }),
    ],
  }),
  reminder: chatMessage({ kind: 'reminder', severity: 'critical', title: 'Still open: honeypot_triggered on bot-1' }),
  resolved: chatMessage({ kind: 'resolved', title: 'Resolved: honeypot_triggered on bot-1' }),
  test: chatMessage({
    kind: 'test',
    severity: 'info',
    title: 'Test of this channel',
    group: null,
    incident: null,
    alerts: [],
  }),
  check: chatMessage({
    kind: 'check',
    severity: 'info',
    title: 'Daily check',
    group: null,
    incident: null,
    alerts: [],
  }),
}

const kill = 'wardline kill --reason honeypot_triggered bot-1'
const ack = 'wardline alerts ack 019bbf6e-0000-7000-8000-000000000001'
const link = 'https://wardline.example.com/alerts'
const ofAlert = `${link}?alert=019bbf6e-0000-7000-8000-000000000001`

/** Text below the alerts of each of these messages. */
export const belowByKind: Record<Message['kind'], { done: string | null; commands: string[]; link: string }> = {
  alert: { done: 'Done so far: nothing', commands: [kill, ack], link: ofAlert },
  digest: { done: null, commands: ['wardline alerts list --status open'], link },
  reminder: { done: 'Done so far: nothing', commands: [kill, ack], link: ofAlert },
  resolved: {
    done: null,
    commands: ['wardline alerts show 019bbf6e-0000-7000-8000-000000000001'],
    link: ofAlert,
  },
  test: { done: null, commands: [], link },
  check: { done: null, commands: [], link },
}

/** Returns this text as lines. */
export function belowLines(kind: Message['kind']): string[] {
  const { done, commands, link } = belowByKind[kind]
  return [...(done === null ? [] : [done]), ...commands.map((command) => `Next: ${command}`), link]
}

interface Said {
  mark: string
  title: string
  /** Note, alerts and count, as people read them. */
  lines: string[]
}
const hit = `${hitFacts} · A decoy was used.`

/** Text above that, before a medium escapes it. */
export const saidByKind: Record<Message['kind'], Said> = {
  alert: {
    mark: '🚨',
    title: 'honeypot_triggered on bot-1',
    lines: ['12:00:10 UTC · warning · tool_blocked · A decoy was used.', hit, '+3 more'],
  },
  digest: {
    mark: '⚠️',
    title: '2 alerts of the last 8 hours',
    lines: [
      'These alerts were delayed until now.',
      '2026-01-14 12:00:30 UTC · warning · bot-1 · honeypot_triggered · Yesterday.',
      '12:00:30 UTC · info · bot-1 · honeypot_triggered',
    ],
  },
  reminder: {
    mark: '🔴',
    title: 'Still open: honeypot_triggered on bot-1',
    lines: ['No one has acknowledged this alert.', hit],
  },
  resolved: { mark: '✅', title: 'Resolved: honeypot_triggered on bot-1', lines: ['This alert is resolved.', hit] },
  test: {
    mark: 'ℹ️',
    title: 'Test of this channel',
    lines: ['This test was requested by an operator. No action is needed.'],
  },
  check: {
    mark: 'ℹ️',
    title: 'Daily check',
    lines: ['This daily message shows that alerts arrive here. No action is needed.'],
  },
}

const fillers = ['_', '*', '😀', '&', '"', '\\', '{', '@', '.a', 'é', '\u202e', '\n']

/** Messages of maximum length, filled with characters that grow most when escaped. */
export const longestMessages: [Message][] = fillers.map((filler) => {
  const fill = (length: number) => filler.repeat(length).slice(0, length)
  const decoy = { ...context.decoys[0]!, label: fill(200) }
  const alert = deliveredAlert({
    description: fill(1_000),
    event_type: fill(100),
    instance_id: fill(64),
    instance_name: fill(80),
    tool: fill(100),
    decoys: Array(10).fill(decoy),
    key: { id: 'k1', name: fill(100) },
    suspension: { by: fill(100), at: createdAt - 86_400_000, reason: fill(500), confirmed: false },
  })
  return [chatMessage({ kind: 'reminder', title: fill(200), alerts: Array(10).fill(alert), more: 1_000_000 })]
})

const text = (maxLength: number) =>
  fc.oneof(
    fc.string({ unit: 'grapheme', maxLength }),
    fc.string({ unit: anyCharacter, maxLength }),
    fc.constantFrom(...fillers).map((filler) => filler.repeat(maxLength)),
  )

/** Arbitrary messages, up to the maximum length and with unusual characters. */
export const anyMessage: fc.Arbitrary<Message> = fc.record({
  id: fc.uuid(),
  kind: fc.constantFrom('alert', 'digest', 'reminder', 'resolved', 'test', 'check'),
  created_at: fc.constant(createdAt),
  severity: fc.constantFrom('info', 'warning', 'critical', 'breach'),
  title: text(200),
  group: fc.option(text(255)),
  incident: fc.option(fc.record({ id: fc.uuid(), group: text(255), place: fc.nat() })),
  alerts: fc.array(
    fc
      .record({
        description: text(1_000),
        event_type: text(100),
        instance_id: fc.option(fc.oneof(text(64), fc.constantFrom('bot-1', '-x'))),
        instance_name: fc.option(text(80)),
        tool: fc.option(text(100)),
        decoys: fc.array(
          text(200).map((label) => ({ ...context.decoys[0]!, label })),
          { maxLength: 10 },
        ),
        suspension: fc.option(
          fc.record({
            by: fc.option(text(100)),
            at: fc.option(fc.constant(createdAt - 60_000)),
            reason: fc.option(text(500)),
            confirmed: fc.boolean(),
          }),
        ),
      })
      .map((changes) => deliveredAlert(changes)),
    { maxLength: 10 },
  ),
  more: fc.nat(1_000_000),
})

/** Texts that an attacker may write into an event, by their purpose. */
export const hostileTexts: Record<string, string> = {
  'mentions of everybody': '<!channel> <!here> <@U024BE7LH> @here @everyone <@&1234> <@!1234> @admin',
  markup: '*bold* _it_ ~gone~ `code` ```block``` ||spoiler|| # head > quote - item 1. item **x** __y__ [a](b)',
  'markup behind backslashes': '\\*bold\\* \\@everyone \\[a\\](b) \\\\_it_ \\',
  'links to press':
    'https://evil.com http://evil.com/x www.evil.com evil.com <https://evil.com|ok> [ok](https://evil.com)',
  'other lines': 'one\ntwo\r\nthree\u2028four\u2029five\u0085six\vseven',
  'controls of a terminal': '\u001b[31mred\u001b[0m\u0007\u0000\u009b1m',
  'reversed directions': 'a\u202eb\u2066c\u200bd\u{e0041}e\ufefff',
  'functions of cards and templates': '{{DATE(2020-01-01T00:00:00Z)}} {{{TIME(x)}}} @{x} <t:0:R> :smile:',
  'markup of the web': '<script>alert(1)</script><img src=x onerror=alert(1)>"\'&amp;',
}

interface ChatAnswer {
  status: number
  headers?: Record<string, string>
  body?: string
}

/** Starts a receiver on a socket that sends every request the same response. */
async function startChat(answer: ChatAnswer) {
  const received: { path: string; headers: IncomingHttpHeaders; body: string }[] = []
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString()
    received.push({ path: request.url ?? '', headers: request.headers, body })
    response.writeHead(answer.status, { ...answer.headers, connection: 'close' }).end(answer.body)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await once(server.close(), 'close')
    },
  }
}

/** Sends a message to a chat with this response. Requests to any host are redirected there, keeping their path. */
export async function deliverOnce<Type extends ChannelType>(
  channel: HttpChannel<Type>,
  settings: Parameters<HttpChannel<Type>['request']>[1],
  answer: ChatAnswer,
): Promise<{ verdict: Verdict; received: { path: string; headers: IncomingHttpHeaders; body: string } }> {
  await using chat = await startChat(answer)
  const request = channel.request(messagesByKind.alert, settings, testSender)
  const { pathname, search } = new URL(request.url)
  const verdict = channel.judge(await openEgress().post({ ...request, url: `${chat.url}${pathname}${search}` }))
  return { verdict, received: chat.received[0]! }
}
