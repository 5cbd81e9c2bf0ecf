import { expect, it } from 'vitest'
import { chatMessage, testSender } from '../../../testing/chat.ts'
import { slack } from './slack.ts'

// Slack parses mentions in the fallback text, but not in a header block.
it('escapes the headline of Slack only in the fallback text', () => {
  const message = chatMessage({ title: '<!channel> & <@U1>' })
  const { text, blocks } = JSON.parse(slack.request(message, { url: 'https://hooks.slack.com/x' }, testSender).body)
  expect(text).toBe('🚨 &lt;!channel&gt; &amp; &lt;@U1&gt;')
  expect(blocks[0].text).toEqual({ type: 'plain_text', text: '🚨 <!channel> & <@U1>', emoji: false })
})
