import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { groupNameOf } from '../outbox/alert.ts'
import { type AlertGroup, type DecidedAlert, decideAlert, type Flush, flush, repeatMs } from './grouping.ts'

const start = Date.UTC(2026, 0, 15, 12)
const second = 1_000
const minute = 60 * second

const alertOf = (fields: Partial<DecidedAlert> = {}): DecidedAlert => ({
  severity: 'critical',
  event_type: 'policy_violation',
  instance_id: 'agent-1',
  by_service: 0,
  created_at: start,
  ...fields,
})

type Silences = Parameters<typeof decideAlert>[1]['silences']

interface Delivered {
  at: number
  kind: string
  name: string
  /** Alerts in the message. */
  count: number
}

/** Simulates a channel of the planner without a database. */
function channelOf({ perMinute = 20, ...options }: { perMinute?: number; send_resolved?: boolean } = {}) {
  const channel = { send_resolved: options.send_resolved ?? true, quiet_hours: null as never }
  const groups = new Map<string, AlertGroup>()
  const delivered: Delivered[] = []
  let silences: Silences = []
  let silent = 0
  let pending = 0
  let now = start

  const sent = () => delivered.filter(({ at }) => at > now - minute).length
  const roomNow = () => ({ room: perMinute - sent(), urgentRoom: 2 * perMinute - sent() })
  const record = (kind: string, name: string, count: number) => delivered.push({ at: now, kind, name, count })

  function flushOne(group: AlertGroup): void {
    const unattended = [alertOf()]
    const decision: Flush = flush(group, { channel, silences, groups, room: roomNow().room, now, unattended })
    if (decision.kind === 'join storm') {
      groups.set(decision.storm.name, decision.storm)
      if (decision.group) groups.set(group.name, decision.group)
      return
    }
    if (decision.kind !== 'end' && decision.kind !== 'wait') record(decision.kind, group.name, group.waiting)
    if (decision.kind === 'alert' || decision.kind === 'digest' || decision.kind === 'resolved')
      pending -= group.waiting
    if ('group' in decision && decision.group) groups.set(group.name, decision.group)
    else groups.delete(group.name)
  }

  return {
    groups,
    delivered,
    quiet(hours: { from: string; to: string; time_zone: string }) {
      channel.quiet_hours = hours as never
    },
    acknowledge(name: string) {
      groups.set(name, { ...groups.get(name)!, state: 'acknowledged' })
    },
    resolve(name: string) {
      groups.set(name, { ...groups.get(name)!, state: 'resolved', due_at: now })
    },
    get now() {
      return now
    },
    /** Alerts without an outcome: neither delivered, nor waiting, nor suppressed for a reason. */
    get lost() {
      return pending - [...groups.values()].reduce((sum, { waiting }) => sum + waiting, 0)
    },
    get silent() {
      return silent
    },
    silence(list: Silences) {
      silences = list
    },
    take(fields: Partial<DecidedAlert> = {}) {
      const alert = alertOf({ created_at: now, ...fields })
      const decision = decideAlert(alert, { channel, silences, groups, mayRemember: true, ...roomNow(), now })
      if (decision.outcome === 'waiting') pending += 1
      if (decision.outcome === 'silenced' || decision.outcome === 'inhibited') silent += 1
      if (decision.outcome === 'sent') {
        const waiting = groups.get(groupNameOf(alert))?.waiting ?? 0
        pending -= waiting
        record(decision.kind, groupNameOf(alert), waiting + 1)
      }
      if (decision.ended !== undefined) groups.delete(decision.ended)
      if ('group' in decision) groups.set(decision.group.name, decision.group)
      if ('remembered' in decision && decision.remembered) groups.set(decision.remembered.name, decision.remembered)
      return decision.outcome
    },
    /** Advances the clock; each due message is sent at its second. */
    pass(ms: number) {
      for (const until = now + ms; now < until; ) {
        now = Math.min(until, now + second)
        const due = [...groups.values()].filter(({ due_at }) => due_at !== null && due_at <= now)
        for (const group of due) flushOne(groups.get(group.name) ?? group)
      }
    },
  }
}

const kinds = (delivered: Delivered[]) => delivered.map(({ at, kind, count }) => [(at - start) / second, kind, count])

describe('further alerts of a group', () => {
  it('are sent in one message after ten seconds if they are critical', () => {
    const channel = channelOf()
    expect(channel.take()).toBe('sent')
    channel.pass(2 * second)
    for (let index = 0; index < 5; index++) expect(channel.take()).toBe('waiting')
    channel.pass(minute)
    expect(kinds(channel.delivered)).toEqual([
      [0, 'alert', 1],
      [12, 'alert', 5],
    ])
  })

  it('are sent in one message after thirty seconds if they are warnings', () => {
    const channel = channelOf()
    channel.take({ severity: 'warning' })
    channel.take({ severity: 'warning' })
    channel.pass(minute)
    expect(kinds(channel.delivered)).toEqual([
      [0, 'alert', 1],
      [30, 'alert', 1],
    ])
  })

  it('are sent at most every five minutes', () => {
    const channel = channelOf()
    for (let index = 0; index < 20 * 60; index++) {
      channel.take()
      channel.pass(second)
    }
    const times = channel.delivered.map(({ at }) => (at - start) / second)
    expect(times.slice(0, 2)).toEqual([0, 11])
    for (const [index, at] of times.slice(2).entries()) expect(at - times[index + 1]!).toBeGreaterThanOrEqual(300)
    expect(times.length).toBeLessThanOrEqual(6)
    channel.pass(10 * minute)
    expect(channel.delivered.reduce((sum, { count }) => sum + count, 0)).toBe(20 * 60)
  })

  it('are sent immediately if the severity rises', () => {
    const channel = channelOf()
    channel.take({ severity: 'warning' })
    channel.take({ severity: 'warning' })
    channel.pass(second)
    expect(channel.take({ severity: 'breach' })).toBe('sent')
    expect(kinds(channel.delivered)).toEqual([
      [0, 'alert', 1],
      [1, 'alert', 2],
    ])
  })

  it('do not include alerts of another instance, which are another group', () => {
    const channel = channelOf()
    expect(channel.take()).toBe('sent')
    expect(channel.take({ instance_id: 'agent-2' })).toBe('sent')
    expect(channel.take({ instance_id: null })).toBe('sent')
  })
})

describe('an unacknowledged alert', () => {
  it('has a reminder every four hours for three days if it is critical, and none after that', () => {
    const channel = channelOf()
    channel.take()
    channel.pass(5 * 24 * 3_600_000)
    const reminders = channel.delivered.filter(({ kind }) => kind === 'reminder')
    expect(reminders).toHaveLength(18)
    expect(reminders[0]!.at - start).toBe(repeatMs)
    expect(channel.groups.size).toBe(0)
  })

  it('has no reminders after it is acknowledged, until the next alert of its group', () => {
    const channel = channelOf()
    channel.take()
    channel.acknowledge('reported policy_violation agent-1')
    channel.pass(24 * 3_600_000)
    expect(channel.delivered).toHaveLength(1)
    expect(channel.take()).toBe('sent')
  })

  it('has no reminders if it is a warning, except for an agent that is still offline', () => {
    const channel = channelOf()
    channel.take({ severity: 'warning' })
    channel.take({ severity: 'warning', event_type: 'instance_offline', by_service: 1 })
    channel.pass(9 * 3_600_000)
    expect(channel.delivered.filter(({ kind }) => kind === 'reminder').map(({ name }) => name)).toEqual([
      'instance_offline agent-1',
      'instance_offline agent-1',
    ])
  })
})

describe('the end of a problem', () => {
  const offline = { severity: 'warning', event_type: 'instance_offline', by_service: 1 } as const
  const recovered = { severity: 'info', event_type: 'instance_recovered', by_service: 1 } as const

  it('is sent to the recipients of the problem', () => {
    const channel = channelOf()
    channel.take(offline)
    channel.pass(minute)
    expect(channel.take(recovered)).toBe('sent')
    expect(channel.delivered.map(({ kind }) => kind)).toEqual(['alert', 'resolved'])
    expect(channel.groups.size).toBe(0)
  })

  it('is not sent if the problem was not sent, or if the channel has send_resolved: false', () => {
    expect(channelOf().take(recovered)).toBe('inhibited')
    const channel = channelOf({ send_resolved: false })
    channel.take(offline)
    expect(channel.take(recovered)).toBe('inhibited')
    expect(channel.groups.size).toBe(0)
  })

  it('is sent although the reminders ended', () => {
    const channel = channelOf()
    channel.take(offline)
    channel.acknowledge('instance_offline agent-1')
    channel.pass(30 * 3_600_000)
    expect(channel.delivered).toHaveLength(1)
    expect(channel.take(recovered)).toBe('sent')
    expect(channel.groups.size).toBe(0)
  })

  it('is sent if a person resolves it', () => {
    const channel = channelOf()
    channel.take()
    channel.resolve('reported policy_violation agent-1')
    channel.pass(second)
    expect(channel.delivered.map(({ kind }) => kind)).toEqual(['alert', 'resolved'])
  })

  // A caller with an agent's key could otherwise end or suppress the alert about the agent's silence.
  it('only counts if the service itself reports it', () => {
    const channel = channelOf()
    channel.take(offline)
    channel.take({ ...recovered, by_service: 0 })
    expect(channel.groups.get('instance_offline agent-1')).toBeDefined()
    channel.take({ severity: 'critical', event_type: 'fleet_outage', instance_id: null, by_service: 0 })
    expect(channel.take({ ...offline, instance_id: 'agent-2' })).toBe('sent')
  })
})

describe('a fleet-wide outage', () => {
  it('inhibits alerts about single offline agents for five minutes', () => {
    const channel = channelOf()
    const offline = { severity: 'warning', event_type: 'instance_offline', by_service: 1 } as const
    channel.take({ severity: 'critical', event_type: 'fleet_outage', instance_id: null, by_service: 1 })
    for (let index = 0; index < 50; index++) {
      expect(channel.take({ ...offline, instance_id: `agent-${index}` })).toBe('inhibited')
    }
    // An event of the same type by a caller is not inhibited.
    expect(channel.take({ ...offline, by_service: 0, instance_id: 'agent-x' })).toBe('sent')
    channel.pass(6 * minute)
    expect(channel.take({ ...offline, instance_id: 'agent-late' })).toBe('sent')
    // A reminder of the outage does not extend the five minutes.
    channel.pass(repeatMs - 5 * minute)
    expect(channel.delivered.some(({ kind, name }) => kind === 'reminder' && name === 'fleet_outage')).toBe(true)
    expect(channel.take({ ...offline, instance_id: 'agent-later' })).toBe('sent')
  })
})

describe('a flood of alerts', () => {
  it('beyond the rate limit of the channel becomes one digest per minute, without losses', () => {
    const channel = channelOf()
    for (let index = 0; index < 500; index++) channel.take({ instance_id: `agent-${index}` })
    expect(channel.delivered).toHaveLength(20)
    channel.pass(2 * minute)
    const digests = channel.delivered.filter(({ kind }) => kind === 'digest')
    expect(digests.map(({ count }) => count)).toEqual([480])
    expect(channel.lost).toBe(0)
  })

  it('keeps reminders for an acknowledged problem whose severity rises during the flood', () => {
    const channel = channelOf({ perMinute: 5 })
    channel.take({ severity: 'warning' })
    channel.acknowledge('reported policy_violation agent-1')
    for (let index = 2; index < 40; index++) channel.take({ instance_id: `agent-${index}` })
    expect(channel.take({ severity: 'breach' })).toBe('waiting')
    channel.pass(repeatMs + 2 * minute)
    const reminded = channel.delivered.filter(({ kind }) => kind === 'reminder').map(({ name }) => name)
    expect(reminded).toContain('reported policy_violation agent-1')
  })

  it('keeps reminders for an offline agent that was acknowledged hours before the flood', () => {
    const channel = channelOf({ perMinute: 5 })
    const offline = { severity: 'warning', event_type: 'instance_offline', by_service: 1 } as const
    channel.take(offline)
    channel.acknowledge('instance_offline agent-1')
    channel.pass(5 * 3_600_000)
    for (let index = 2; index < 40; index++) channel.take({ instance_id: `agent-${index}` })
    expect(channel.take({ ...offline, severity: 'critical' })).toBe('sent')
    channel.pass(repeatMs + 2 * minute)
    const reminded = channel.delivered.filter(({ kind }) => kind === 'reminder').map(({ name }) => name)
    expect(reminded).toContain('instance_offline agent-1')
  })

  it('in groups that were already sent becomes one digest too', () => {
    const channel = channelOf({ perMinute: 5 })
    for (let index = 0; index < 5; index++) channel.take({ instance_id: `agent-${index}` })
    for (let index = 0; index < 5; index++) channel.take({ instance_id: `agent-${index}` })
    channel.pass(30 * second)
    expect(channel.delivered).toHaveLength(5)
    channel.pass(2 * minute)
    expect(kinds(channel.delivered).slice(5)).toEqual([[70, 'digest', 5]])
  })

  // Collected, it arrived after the suspension that it caused.
  it('does not delay a hit after a pause, and collects those that follow', () => {
    const channel = channelOf()
    const hit = { by_service: 1, instance_id: 'agent-x', event_type: 'honeypot_triggered', severity: 'breach' } as const
    expect(channel.take(hit)).toBe('sent')
    channel.pass(5 * minute - second)
    expect(channel.take(hit)).toBe('waiting')
    channel.pass(5 * minute + 10 * second)
    expect(channel.delivered).toHaveLength(2)
    expect(channel.take(hit)).toBe('sent')
    expect(channel.take(hit)).toBe('waiting')
    // Of a problem that callers report, everything after the first message is collected.
    const reported = { ...hit, by_service: 0 } as const
    expect(channel.take(reported)).toBe('sent')
    channel.pass(10 * minute)
    expect(channel.take(reported)).toBe('waiting')
  })

  it('does not delay results of kills or the first hit on a decoy', () => {
    const channel = channelOf()
    for (let index = 0; index < 100; index++) channel.take({ instance_id: `agent-${index}` })
    const ours = { by_service: 1, instance_id: 'agent-x' } as const
    expect(channel.take({ ...ours, event_type: 'honeypot_triggered', severity: 'breach' })).toBe('sent')
    expect(channel.take({ ...ours, event_type: 'honeypot_triggered', severity: 'breach' })).toBe('waiting')
    for (const event_type of ['instance_suspended', 'kill_unconfirmed', 'kill_confirmed', 'instance_resumed']) {
      expect(channel.take({ ...ours, event_type, severity: 'warning' })).toBe('sent')
    }
  })

  // A key for `agent-*` can hit decoys with any instance id, and the first hit of each id would be urgent.
  it('of first hits on decoys is delayed at twice the limit, and results of kills still are not', () => {
    const channel = channelOf({ perMinute: 5 })
    const hit = { by_service: 1, event_type: 'honeypot_triggered', severity: 'breach' } as const
    for (let index = 0; index < 100; index++) channel.take({ ...hit, instance_id: `agent-${index}` })
    expect(channel.delivered).toHaveLength(10)
    const kill = { by_service: 1, event_type: 'kill_confirmed', severity: 'info' } as const
    expect(channel.take({ ...kill, instance_id: 'agent-3' })).toBe('sent')
    channel.pass(2 * minute)
    expect(channel.delivered.filter(({ kind }) => kind === 'digest').map(({ count }) => count)).toEqual([90])
  })

  it('of reminders stays within the limit', () => {
    const channel = channelOf({ perMinute: 5 })
    for (let index = 0; index < 100; index++) {
      channel.take({ instance_id: `agent-${index}` })
      channel.pass(12 * second)
    }
    channel.pass(repeatMs - 20 * minute)
    channel.acknowledge('reported policy_violation agent-0')
    const before = channel.delivered.length
    channel.pass(60 * minute)
    const reminders = channel.delivered.slice(before)
    expect(reminders).toHaveLength(99)
    for (const { at } of reminders) {
      expect(reminders.filter((other) => other.at > at - minute && other.at <= at).length).toBeLessThanOrEqual(5)
    }
  })

  // Otherwise an agent could page people at any rate by reporting its events as decoy hits.
  it('delays urgent types that a caller reported', () => {
    const channel = channelOf()
    for (let index = 0; index < 100; index++) channel.take({ instance_id: `agent-${index}` })
    for (const event_type of ['honeypot_triggered', 'kill_confirmed', 'kill_unconfirmed', 'fleet_outage']) {
      expect(channel.take({ event_type, severity: 'breach', instance_id: 'agent-x' })).toBe('waiting')
    }
  })
})

describe('an alert that is delayed or silenced', () => {
  it('by a silence is not sent while the silence lasts', () => {
    const channel = channelOf()
    channel.silence([{ match: { types: ['policy_*'], instances: ['agent-1'] }, ends_at: start + minute }])
    expect(channel.take()).toBe('silenced')
    expect(channel.take({ instance_id: 'agent-2' })).toBe('sent')
    channel.pass(minute)
    expect(channel.take()).toBe('sent')
  })

  it('by a silence has no reminders meanwhile, and the end of its problem is silenced too', () => {
    const channel = channelOf()
    const offline = { severity: 'warning', event_type: 'instance_offline', by_service: 1 } as const
    channel.take()
    channel.take(offline)
    const all = { types: ['policy_*', 'instance_offline'] }
    channel.silence([{ match: all, ends_at: start + 9 * 3_600_000 }])
    channel.pass(8 * 3_600_000)
    expect(channel.take({ severity: 'info', event_type: 'instance_recovered', by_service: 1 })).toBe('silenced')
    expect(channel.delivered).toHaveLength(2)
    channel.pass(4 * 3_600_000)
    expect(channel.delivered.slice(2).map(({ kind, name }) => [kind, name])).toEqual([
      ['reminder', 'reported policy_violation agent-1'],
    ])
  })

  it('by quiet hours is sent in one digest at their end, but a critical alert immediately', () => {
    const channel = channelOf()
    channel.quiet({ from: '11:00', to: '12:30', time_zone: 'UTC' })
    expect(channel.take({ severity: 'warning' })).toBe('waiting')
    expect(channel.take({ severity: 'warning', event_type: 'other' })).toBe('waiting')
    expect(channel.take()).toBe('sent')
    channel.pass(31 * minute)
    expect(kinds(channel.delivered)).toEqual([
      [0, 'alert', 1],
      [1800, 'digest', 2],
    ])
  })

  it('by quiet hours has its reminders and its end after them', () => {
    const channel = channelOf()
    const offline = { severity: 'warning', event_type: 'instance_offline', by_service: 1 } as const
    channel.take(offline)
    channel.take({ ...offline, instance_id: 'agent-2' })
    channel.quiet({ from: '12:10', to: '20:00', time_zone: 'UTC' })
    channel.pass(5 * 3_600_000)
    expect(channel.take({ severity: 'info', event_type: 'instance_recovered', by_service: 1 })).toBe('waiting')
    channel.pass(4 * 3_600_000)
    const eight = 8 * 3600
    expect(kinds(channel.delivered).slice(2).toSorted()).toEqual([
      [eight, 'digest', 1],
      [eight, 'reminder', 0],
    ])
  })

  it('is sent with the end of its problem, even if the channel has send_resolved: false', () => {
    const channel = channelOf({ send_resolved: false })
    const offline = { severity: 'warning', event_type: 'instance_offline', by_service: 1 } as const
    channel.take(offline)
    channel.take(offline)
    expect(channel.take({ severity: 'info', event_type: 'instance_recovered', by_service: 1 })).toBe('sent')
    expect(kinds(channel.delivered)).toEqual([
      [0, 'alert', 1],
      [0, 'resolved', 2],
    ])
  })

  it('and first sent in a digest has reminders, and a message when its problem ends', () => {
    const channel = channelOf()
    const offline = { severity: 'warning', event_type: 'instance_offline', by_service: 1 } as const
    const recovered = { severity: 'info', event_type: 'instance_recovered', by_service: 1 } as const
    channel.quiet({ from: '11:00', to: '12:30', time_zone: 'UTC' })
    for (const instance_id of ['a', 'b', 'c']) expect(channel.take({ ...offline, instance_id })).toBe('waiting')
    // An agent that is back before the digest is in it twice: as offline and as recovered.
    expect(channel.take({ ...recovered, instance_id: 'a' })).toBe('waiting')
    channel.pass(31 * minute)
    expect(kinds(channel.delivered)).toEqual([[1800, 'digest', 4]])
    expect(channel.take({ ...recovered, instance_id: 'b' })).toBe('sent')
    channel.pass(4 * 3_600_000)
    expect(channel.delivered.slice(1).map(({ kind, name }) => [kind, name])).toEqual([
      ['resolved', 'instance_offline b'],
      ['reminder', 'instance_offline c'],
    ])
  })

  it('by quiet hours that are shortened is sent at their new end', () => {
    const channel = channelOf()
    channel.quiet({ from: '11:00', to: '20:00', time_zone: 'UTC' })
    channel.take({ severity: 'warning' })
    channel.quiet({ from: '11:00', to: '12:30', time_zone: 'UTC' })
    channel.take({ severity: 'warning', event_type: 'other' })
    channel.pass(31 * minute)
    expect(kinds(channel.delivered)).toEqual([[1800, 'digest', 2]])
  })

  it('by a long pause of the service is sent in one digest', () => {
    const channel = channelOf()
    for (let index = 0; index < 30; index++) {
      channel.take({ instance_id: `agent-${index}`, created_at: start - 2 * 3_600_000 })
    }
    channel.pass(minute)
    expect(kinds(channel.delivered)).toEqual([[30, 'digest', 30]])
  })
})

describe('any sequence of alerts', () => {
  const types = ['policy_violation', 'instance_offline', 'instance_recovered', 'honeypot_triggered', 'kill_confirmed']
  const step = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        severity: fc.constantFrom('info', 'warning', 'critical', 'breach'),
        event_type: fc.constantFrom(...types),
        instance_id: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'),
        by_service: fc.constantFrom(0 as const, 1 as const),
      }),
    },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 600 }) },
  )

  it('loses no alert, and only urgent messages exceed the limit', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150 }), (steps) => {
        const channel = channelOf({ perMinute: 5 })
        for (const one of steps) {
          if (typeof one === 'number') channel.pass(one * second)
          else channel.take(one as never)
        }
        expect(channel.lost).toBe(0)
        channel.pass(3_600_000)
        expect([...channel.groups.values()].filter(({ waiting }) => waiting > 0)).toEqual([])
        const ordinary = channel.delivered.filter(({ name, kind }) => kind === 'alert' && name.startsWith('reported'))
        for (const { at } of ordinary) {
          expect(ordinary.filter((other) => other.at > at - minute && other.at <= at).length).toBeLessThanOrEqual(5)
        }
      }),
      { numRuns: 200 },
    )
  })
})
