import { expect, it } from 'vitest'
import { chatMessage, hostileTexts, longestMessages, messagesByKind, testSender } from '../../../testing/chat.ts'
import { discord } from './discord.ts'

it.each([
  ['{"message":"You are being rate limited.","retry_after":64.57,"global":false}', 65],
  ['{"retry_after":1e12}', 86_400],
  ['{"retry_after":"soon"}', 7],
  ['{"retry_after":-1}', 7],
  ['not json', 7],
])('%s of Discord sets the retry delay by retry_after, or else by Retry-After', (body, seconds) => {
  expect(discord.judge({ status: 429, headers: { 'retry-after': '7' }, body })).toMatchObject({
    delivered: false,
    retryAfterSeconds: seconds,
  })
})

const titleOf = (title: string): string =>
  JSON.parse(discord.request(chatMessage({ title }), { url: 'https://discord.com/api/webhooks/1/x' }, testSender).body)
    .embeds[0].title

const settings = { url: 'https://discord.com/api/webhooks/1/x?thread_id=5' }
const thread = { reference: '123', first: messagesByKind.alert }

it('adds the end of an incident to its first message, and sends what calls people as a message', () => {
  expect(discord.judge({ status: 200, headers: {}, body: '{"id":"123"}' }).reference).toBe('123')
  const end = discord.request(messagesByKind.resolved, settings, { ...testSender, thread })
  expect(end).toMatchObject({ method: 'PATCH', url: 'https://discord.com/api/webhooks/1/x/messages/123?thread_id=5' })
  const titles = JSON.parse(end.body).embeds.map(({ title }: { title: string }) => title)
  expect(titles).toEqual([expect.stringContaining('honeypot'), expect.stringContaining('Resolved')])
  const reminder = discord.request(messagesByKind.reminder, settings, { ...testSender, thread })
  expect(reminder).not.toHaveProperty('method')
  expect(JSON.parse(reminder.body).embeds).toHaveLength(1)
})

it('sends another message where both exceed what Discord accepts: a long report must not push out the breach', () => {
  let count = 0
  for (const first of longestMessages.flat()) {
    for (const second of [messagesByKind.resolved, { ...first, kind: 'resolved' as const }]) {
      const request = discord.request(second, settings, { ...testSender, thread: { ...thread, first } })
      const { embeds } = JSON.parse(request.body) as { embeds: { title: string; description: string }[] }
      const size = embeds.reduce((sum, { title, description }) => sum + title.length + description.length, 0)
      expect(size).toBeLessThan(6_001)
      expect(embeds).toHaveLength(request.method === 'PATCH' ? 2 : 1)
      if (request.method !== 'PATCH') count += 1
    }
  }
  expect(count).toBeGreaterThan(0)
})

it('edits no message that is an hour old', () => {
  const { resolved } = messagesByKind
  const at = (created_at: number) =>
    discord.request({ ...resolved, created_at }, settings, { ...testSender, thread }).method
  expect(at(thread.first.created_at + 3_600_000)).toBe('PATCH')
  expect(at(thread.first.created_at + 3_600_001)).toBeUndefined()
})

// The title is markdown too.
it.each(Object.values(hostileTexts))('shows the title %j literally', (text) => {
  expect(titleOf(text.slice(0, 60)).replaceAll(/\\[^0-9A-Za-z\s]/g, '')).not.toMatch(/[\\*_~`|>#\-+[\]()<:@]/)
})

it('cuts no escape of a title for Discord in two', () => {
  const halves = titleOf(`a${'_'.repeat(199)}`).replaceAll('\\_', '')
  expect(halves).not.toContain('\\')
})
