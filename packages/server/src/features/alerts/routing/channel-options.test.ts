import { channelKinds, channelTypes } from '@wardline/contract'
import { describe, expect, it } from 'vitest'
import { allChannels, destinationHost } from '../channels/all-channels.ts'
import { changedOptions, defaultOptions } from './channel-options.ts'
import { quietHoursFault } from './quiet-hours.ts'
import type { KnownChannel } from './routing-table.ts'
import { signingSettings } from './sealed-settings.ts'

describe('default options', () => {
  it('have minimum severity info for machines and warning for people', () => {
    for (const type of channelTypes) {
      const minimum = channelKinds[type].audience === 'machines' ? 'info' : 'warning'
      expect(defaultOptions(type).min_severity, type).toBe(minimum)
    }
    expect([channelKinds.syslog.audience, channelKinds.pagerduty.audience]).toEqual(['machines', 'people'])
  })

  it('are replaced by given values, also by false and null', () => {
    const hours = { from: '22:00', to: '07:00', time_zone: 'Europe/Berlin' }
    const options = { ...defaultOptions('slack'), quiet_hours: hours }
    expect(changedOptions(options, { enabled: false, send_resolved: false, daily_check: false })).toMatchObject({
      enabled: false,
      send_resolved: false,
      daily_check: false,
      quiet_hours: hours,
    })
    expect(changedOptions(options, { quiet_hours: null, max_per_minute: 1, min_severity: 'breach' })).toMatchObject({
      quiet_hours: null,
      max_per_minute: 1,
      min_severity: 'breach',
      enabled: true,
    })
  })
})

describe('every type of channel', () => {
  it('is registered under its type', () => {
    expect(Object.keys(allChannels)).toEqual([...channelTypes])
    for (const [name, { type }] of Object.entries(allChannels)) expect(type).toBe(name)
  })

  // Every viewer sees the destination, and all other parts of a URL may be secret.
  it('has the host alone as its destination', () => {
    const url = 'https://user:CANARY@hooks.example.com/CANARY?token=CANARY#CANARY'
    const settings = {
      url,
      token: '123456:CANARY-CANARY',
      chat_id: '-1',
      routing_key: 'CANARY'.repeat(6).slice(0, 32),
      from: 'a@example.com',
      to: ['CANARY@example.com'],
    }
    for (const type of channelTypes) {
      const fitting = { email: url.replace('https', 'smtps'), syslog: url.replace('https', 'tls') }[type as string]
      const shown = destinationHost(type, { ...settings, url: fitting ?? url } as never)
      expect(shown, type).toMatch(/^[a-z0-9.-]+(:\d+)?$/)
      expect(shown, type).not.toContain('canary')
    }
  })
})

describe('quiet hours', () => {
  const hours = { from: '22:00', to: '07:00' }
  it.each(['Europe/Berlin', 'UTC', 'America/Argentina/Buenos_Aires'])('accept the time zone %s', (time_zone) => {
    expect(quietHoursFault({ ...hours, time_zone })).toBeUndefined()
  })

  it.each(['', 'Mars/Base', '+01:00', 'Europe', 'Europe/Berlin '])('refuse the time zone "%s"', (time_zone) => {
    expect(quietHoursFault({ ...hours, time_zone })).toMatch(/^quiet_hours\.time_zone .*\.$/)
  })

  it('refuse an end that equals the start', () => {
    const same = { from: '22:00', to: '22:00', time_zone: 'UTC' }
    expect(quietHoursFault(same)).toBe('quiet_hours.to must differ from quiet_hours.from.')
  })
})

describe('previous secrets', () => {
  const channel = {
    settings: { url: 'https://hooks.example.com', secret: 'new' },
    previous_secrets: [
      { secret: 'named by the environment', until: null },
      { secret: 'older', until: 2_000 },
      { secret: 'oldest', until: 1_000 },
    ],
  } as unknown as KnownChannel
  const signing = (now: number) => (signingSettings(channel, now) as { previous_secrets?: string[] }).previous_secrets

  it('sign until exactly their end', () => {
    expect(signing(999)).toEqual(['named by the environment', 'older', 'oldest'])
    expect(signing(1_000)).toEqual(['named by the environment', 'older'])
    expect(signing(2_000)).toEqual(['named by the environment'])
  })

  it('are missing from the settings if there are none', () => {
    expect(signingSettings({ ...channel, previous_secrets: [] }, 0)).toBe(channel.settings)
  })
})
