import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { anyMessage, chatMessage, deliveredAlert, longestMessages, testSender } from '../../../testing/chat.ts'
import { bodyLines, messageLines } from './message-lines.ts'

describe('messageLines', () => {
  it('shows a longer description of a single alert than of several', () => {
    const alert = deliveredAlert({ description: 'x'.repeat(1_000) })
    const lengths = (count: number) =>
      messageLines(chatMessage({ alerts: Array(count).fill(alert) }), testSender, { room: 100_000 }).alerts.map(
        (line) => line.match(/x*/g)?.join('').length,
      )
    expect(lengths(1)).toEqual([1_000])
    expect(lengths(2)).toEqual([199, 199])
  })

  it('shows the date of an alert that is not of the day of the message', () => {
    const [before, on] = [Date.UTC(2026, 0, 14, 23, 59, 59), Date.UTC(2026, 0, 15, 0, 0, 0)]
    const alerts = [before, on].map((created_at) => deliveredAlert({ created_at }))
    const { alerts: lines } = messageLines(chatMessage({ created_at: on, alerts }), testSender, { room: 3_000 })
    expect(lines.map((line) => line.split(' UTC')[0])).toEqual(['2026-01-14 23:59:59', '00:00:00'])
  })

  it('keeps the lines within the room, and each text on one line', () => {
    fc.assert(
      fc.property(anyMessage, fc.integer({ min: 2_000, max: 7_000 }), (message, room) => {
        const lines = messageLines(message, testSender, { room })
        expect(bodyLines({ ...lines, note: null, rest: null }).join('').length).toBeLessThanOrEqual(room)
        expect([lines.headline, ...bodyLines(lines)].join('')).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
        expect(lines.rest).toBe(message.more > 0 ? `+${message.more} more` : null)
      }),
      { examples: longestMessages.map(([message]) => [message, 2_000]) },
    )
  })
})
