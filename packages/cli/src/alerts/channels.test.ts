import { Command } from 'commander'
import { expect, test } from 'vitest'
import { channelFields, withChannelOptions } from './channels.ts'

/** The fields that a command line stands for. */
function fields(isChange: boolean, ...args: string[]) {
  const command = withChannelOptions(new Command('x'), isChange)
    .exitOverride()
    .configureOutput({ writeErr: () => {} })
  command.parse(args, { from: 'user' })
  return channelFields(command.opts())
}

test('changes nothing that was not named', () => {
  expect(fields(true)).toEqual({})
  expect(fields(true, '--no-resolved')).toEqual({ send_resolved: false })
  expect(fields(true, '--daily-check', '--resolved')).toEqual({ daily_check: true, send_resolved: true })
})

test('a new channel checks and sends resolved alerts by default', () => {
  expect(fields(false)).toEqual({ daily_check: true, send_resolved: true })
  expect(fields(false, '--no-daily-check')).toMatchObject({ daily_check: false })
})

test('reads quiet hours with the clocks that they are of', () => {
  expect(fields(true, '--quiet', '22:00-07:00', '--time-zone', 'Europe/Berlin')).toEqual({
    quiet_hours: { from: '22:00', to: '07:00', time_zone: 'Europe/Berlin' },
  })
  expect(fields(true, '--quiet', '22:00-07:00', '--time-zone', 'UTC', '--quiet-min-severity', 'breach')).toEqual({
    quiet_hours: { from: '22:00', to: '07:00', time_zone: 'UTC', min_severity: 'breach' },
  })
  expect(fields(true, '--no-quiet')).toEqual({ quiet_hours: null })
})

test('refuses half of what belongs together', () => {
  expect(() => fields(true, '--quiet', '22:00-07:00')).toThrow('needs --time-zone')
  expect(() => fields(true, '--time-zone', 'UTC')).toThrow('belong to --quiet')
  for (const text of ['22-7', '22:00', '22:00 - 07:00', 'night'])
    expect(() => fields(true, '--quiet', text, '--time-zone', 'UTC'), text).toThrow('22:00-07:00')
})
