import { describe, expect, it } from 'vitest'
import { deliveredAlert } from '../../../testing/chat.ts'
import type { DeliveredAlert, Message } from './message.ts'
import { dashboardLink, nextCommands } from './next-commands.ts'

const id = '019bbf6e-0000-7000-8000-000000000001'
const ack = `wardline alerts ack ${id}`
const commands = (
  changes: Partial<DeliveredAlert> = {},
  kind: Message['kind'] = 'alert',
  group: string | null = 'x bot-1',
) => nextCommands({ kind, group, alerts: [deliveredAlert(changes)] })
const suspension = { by: 'night shift', at: 1, reason: 'odd', confirmed: false }

describe('the next commands', () => {
  it('begin with the kill of an agent that is not suspended', () => {
    expect(commands()).toEqual(['wardline kill --reason honeypot_triggered bot-1', ack])
    expect(commands({ by_service: false, event_type: 'policy_violation' }, 'reminder')).toEqual([
      'wardline kill --reason policy_violation bot-1',
      ack,
    ])
  })

  it.each<[string, Partial<DeliveredAlert>, string[]]>([
    ['is suspended already', { suspension }, ['wardline instances bot-1', ack]],
    ['is silent', { event_type: 'instance_offline' }, ['wardline instances bot-1', ack]],
    ['reports what needs no action', { severity: 'info' }, ['wardline instances bot-1', ack]],
    ['never signed in, so that a kill would be refused', { instance_name: null }, [ack]],
    ['is none', { instance_id: null }, [ack]],
  ])('kill no agent that %s', (_, changes, expected) => {
    expect(commands(changes)).toEqual(expected)
  })

  it.each([
    ['fleet_outage', 'wardline status'],
    ['alert_channel_failing', 'wardline channels list'],
    ['alerting_changed', 'wardline channels list'],
  ])('for %s begin with a command that shows its cause, unless a caller reported it', (event_type, expected) => {
    expect(commands({ event_type, instance_id: null })).toEqual([expected, ack])
    expect(commands({ event_type, instance_id: null, by_service: false })).toEqual([ack])
  })

  it('begin with the revocation of a key that was used for another instance', () => {
    const key = { id: 'k1ab2cd3', name: 'bots' }
    expect(commands({ event_type: 'identity_mismatch', key })).toEqual(['wardline keys revoke k1ab2cd3', ack])
    expect(commands({ event_type: 'identity_mismatch', key, by_service: false })).toEqual([
      'wardline kill --reason identity_mismatch bot-1',
      ack,
    ])
    // A key from the environment cannot be revoked by command.
    expect(commands({ event_type: 'identity_mismatch', key: { id: 'configured-1', name: 'x' } })[0]).toContain('kill')
  })

  it('list open alerts for a digest, show an alert whose problem ended, and are empty for a test', () => {
    expect(commands({}, 'digest', null)).toEqual(['wardline alerts list --status open'])
    expect(commands({}, 'resolved')).toEqual([`wardline alerts show ${id}`])
    expect(nextCommands({ kind: 'test', group: null, alerts: [] })).toEqual([])
    expect(commands({ event_type: 'instance_resumed', severity: 'warning' })).toEqual([`wardline alerts show ${id}`])
  })

  // People paste commands into a shell, so no text that an agent chose may become part of one, nor an option.
  it.each(['x; rm -rf /', '$(id)', '`id`', 'a b', "x'", 'x\nwardline', '', 'Ⅻ'])('contain nothing of %j', (text) => {
    expect(commands({ instance_id: text })).toEqual([ack])
    expect(commands({ event_type: text })).toEqual([ack])
    expect(nextCommands({ kind: 'alert', group: 'x', alerts: [deliveredAlert({ id: text })] })).toEqual([])
  })
  it('have -- before an id that begins with a dash, so that it is not an option', () => {
    expect(commands({ instance_id: '--help' })[0]).toBe('wardline kill --reason honeypot_triggered -- --help')
  })
  it.each(['constructor', 'tostring', '__proto__'])('treat %s as an unknown type', (event_type) => {
    expect(commands({ event_type })[0]).toBe(`wardline kill --reason ${event_type} bot-1`)
  })
})

describe('the link', () => {
  const one = { group: 'x bot-1', alerts: [deliveredAlert()] }
  it.each([
    ['https://wardline.example.com', `https://wardline.example.com/alerts?alert=${id}`],
    ['https://example.com/console/', `https://example.com/console/alerts?alert=${id}`],
    // The link must not reveal a password to readers of the channel.
    ['https://ada:secret@example.com', `https://example.com/alerts?alert=${id}`],
  ])('for the public URL %s is %s', (publicUrl, expected) => {
    expect(dashboardLink(one, publicUrl)).toBe(expected)
  })

  it('is missing without a public URL, and if it would be too long', () => {
    expect(dashboardLink(one, undefined)).toBeNull()
    expect(dashboardLink(one, `https://example.com/${'x'.repeat(500)}`)).toBeNull()
  })

  it('opens the list of alerts for a message about several problems', () => {
    expect(dashboardLink({ group: null, alerts: one.alerts }, 'https://example.com')).toBe('https://example.com/alerts')
  })
})
