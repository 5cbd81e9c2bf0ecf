import { expect, it } from 'vitest'
import { chatMessage, hostileTexts, testSender } from '../../../testing/chat.ts'
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

// The title is markdown too.
it.each(Object.values(hostileTexts))('shows the title %j literally', (text) => {
  expect(titleOf(text.slice(0, 60)).replaceAll(/\\[^0-9A-Za-z\s]/g, '')).not.toMatch(/[\\*_~`|>#\-+[\]()<:@]/)
})

it('cuts no escape of a title for Discord in two', () => {
  const halves = titleOf(`a${'_'.repeat(199)}`).replaceAll('\\_', '')
  expect(halves).not.toContain('\\')
})
