import type { ChannelView } from '@wardline/contract'
import { expect, test } from 'vitest'
import { judgeChannels } from './channels.ts'

const channel = (fields: Partial<ChannelView> = {}): ChannelView => ({
  id: 'env-slack',
  name: 'Slack',
  type: 'slack',
  managed_by: 'environment',
  destination: 'hooks.slack.com',
  min_severity: 'warning',
  enabled: true,
  decides: false,
  send_resolved: true,
  daily_check: true,
  personal_mail: false,
  max_per_minute: 20,
  quiet_hours: null,
  state: 'ok',
  waiting: 0,
  dead: 0,
  behind: 0,
  paused_until: null,
  last_delivered_at: null,
  last_error: null,
  last_error_at: null,
  ...fields,
})
const off = channel({ enabled: false, state: 'disabled' })

test('warns when no channel receives alerts', () => {
  expect(judgeChannels([])).toMatchObject({ status: 'warn', detail: 'No alert channel exists: alerts are not sent.' })
  expect(judgeChannels([off])).toMatchObject({ status: 'warn', detail: expect.stringContaining('disabled') })
})

test('warns about a failing channel with its error', () => {
  const failing = channel({ state: 'failing', last_error: 'The receiver answered 404.', dead: 3 })
  expect(judgeChannels([channel({ name: 'Mail' }), failing])).toEqual({
    name: 'channels',
    status: 'warn',
    detail: 'Alerts do not reach "Slack": The receiver answered 404.',
    fix: expect.stringContaining('wardline channels log env-slack'),
  })
})

test('warns about messages that were not delivered', () => {
  expect(judgeChannels([channel(), channel({ id: 'env-ntfy', name: 'Phone', dead: 1 })])).toMatchObject({
    status: 'warn',
    detail: '1 message was not delivered to "Phone".',
    fix: expect.stringContaining('wardline channels replay env-ntfy'),
  })
})

test('lists the working channels', () => {
  expect(judgeChannels([channel(), off])).toMatchObject({ status: 'ok', detail: 'Alerts go to "Slack".' })
})
