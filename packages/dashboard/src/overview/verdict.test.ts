import type { ContainmentSummary } from '@wardline/contract'
import { describe, expect, test } from 'vitest'
import type { Agent } from '../data/fleet.ts'
import type { Row } from '../data/live-tail.ts'
import { attentionOf } from './attention.ts'
import { verdictOf } from './verdict.ts'

const now = Date.parse('2026-11-22T14:00:00Z')
const at = (secondsAgo: number) => new Date(now - secondsAgo * 1_000).toISOString()

const agent = (id: string, status: Agent['status'] = 'active', secondsAgo = 3): Agent =>
  ({
    id,
    name: id,
    status,
    secondsAgo,
    last_heartbeat: at(secondsAgo),
    suspension_reason: null,
    silent: status === 'offline',
    control: { version: 0, changed_at: null, applied_version: null, applied_at: null, confirmed: true },
  }) as Agent
const ended = (id: string): Agent => ({ ...agent(id, 'offline', 300), silent: false })
const suspended = (id: string, confirmedMs?: number): Agent => {
  const confirmed = confirmedMs !== undefined
  const applied_at = confirmed ? new Date(now - 40_000 + confirmedMs).toISOString() : null
  const control = { version: 1, changed_at: at(40), applied_version: confirmed ? 1 : 0, applied_at, confirmed }
  return { ...agent(id, 'suspended'), fail_mode: 'open', control } as Agent
}
let seq = 0
const row = (fields: Partial<Row>): Row =>
  ({
    id: `id-${++seq}`,
    seq,
    severity: 'breach',
    source: 'x',
    by_service: true,
    event_type: 'honeypot_triggered',
    description: 'd',
    instance_id: 'a',
    session_id: null,
    metadata: null,
    ip_address: null,
    created_at: at(60),
    ...fields,
  }) as Row

interface Facts {
  fleet?: Agent[]
  events?: Row[]
  anomalies?: Row[]
  alerts?: [string, string][]
  overdue?: Row[]
  containments?: ContainmentSummary[]
  brake?: { engaged: boolean; engaged_at: string; engaged_by_event: string; refused: number }
  ageMs?: number
}
function verdict({
  fleet = [agent('a'), agent('b')],
  events = [],
  anomalies = [],
  alerts = [],
  overdue = [],
  containments = [],
  brake,
  ageMs = 0,
}: Facts) {
  const items = attentionOf({ fleet, events, anomalies, overdue, containments, brake, alerts: new Map(alerts), now })
  return { sentence: verdictOf({ fleet, items, ageMs }), kinds: items.map(({ kind }) => kind), items }
}

describe('the verdict', () => {
  test('claims nothing about the current state from stale data', () => {
    expect(verdict({ ageMs: 23_400, events: [row({})] }).sentence).toBe('No answer from the service for 23 s.')
  })

  test.each([
    [{ fleet: [] }, 'No agent has reported yet.'],
    [{}, 'All 2 agents are well.'],
    [{ fleet: [agent('a'), agent('b', 'offline', 300)] }, '1 of 2 agents is silent.'],
    [{ fleet: [agent('a', 'offline', 300)] }, 'Every agent is silent.'],
    // An agent that said goodbye, or is only slightly late, needs no attention.
    [{ fleet: [agent('a'), ended('b')] }, '1 agent is well; 1 is offline.'],
    [
      { fleet: [agent('a'), agent('b'), suspended('c', 21), ended('d'), ended('e')] },
      '2 agents are well; 1 is suspended, 2 are offline.',
    ],
    [{ fleet: [ended('a')] }, 'No agent is active.'],
    [{ fleet: [agent('a'), suspended('b', 21)] }, '1 agent is well; 1 is suspended.'],
    [{ fleet: [suspended('a', 21)] }, 'Every agent is suspended.'],
    [{ events: [row({})] }, 'a used a decoy and is still working.'],
    [{ events: [row({}), row({ instance_id: 'b' })] }, '2 agents reported breaches; both are still working.'],
    [
      { fleet: [suspended('a', 21), agent('b')], events: [row({})] },
      'a used a decoy. Suspended, confirmed after 21 ms.',
    ],
    [
      { events: [row({ severity: 'critical', event_type: 'data_export', by_service: false, source: 'a' })] },
      'a reports data_export.',
    ],
  ] satisfies [Facts, string][])('of %j is "%s"', (facts, sentence) => {
    expect(verdict(facts).sentence).toBe(sentence)
  })

  // "Suspended" is easily read as "stopped", so an agent that has not confirmed comes before everything else.
  test('names an unconfirmed suspension first', () => {
    const facts = { fleet: [suspended('a'), agent('b')], events: [row({})] }
    expect(verdict(facts).sentence).toBe('a has not confirmed its suspension.')
  })

  test('names a working agent with a critical report before a breach by a suspended agent', () => {
    const critical = row({ severity: 'critical', event_type: 'anomaly_detected', instance_id: 'b' })
    const events = [row({}), critical]
    const other = agent('b')
    expect(verdict({ events, fleet: [suspended('a', 21), other] }).sentence).toBe('b behaves unusually.')
    expect(verdict({ events, fleet: [agent('a'), other] }).sentence).toBe('a used a decoy and is still working.')
  })

  // Any caller may report a type that only the service can know, so an attacker could blame another agent.
  test('does not trust a caller that reports a type that only the service can know', () => {
    const { items } = verdict({ events: [row({ by_service: false, source: 'b' })] })
    expect(items[0]?.headline).toBe('a: honeypot_triggered, claimed by another source')
  })
})

describe('the attention queue', () => {
  test('lists the worst items first', () => {
    const { kinds } = verdict({
      fleet: [agent('a'), suspended('b'), agent('c', 'offline', 300)],
      events: [row({ severity: 'critical' }), row({})],
    })
    expect(kinds).toEqual(['breach', 'unconfirmed', 'critical', 'offline'])
  })

  test('leaves out acknowledged alerts and events older than a day', () => {
    const seen = row({})
    expect(verdict({ events: [seen], alerts: [[seen.id, 'acknowledged']] }).items).toEqual([])
    expect(verdict({ events: [row({ created_at: at(90_000) })] }).items).toEqual([])
    const open = row({})
    expect(verdict({ events: [open], alerts: [[open.id, 'open']] }).items[0]?.alertId).toBe(open.id)
  })

  test('groups repeated events, and agents that went silent together', () => {
    const { items } = verdict({
      fleet: [agent('a', 'offline', 300), agent('b', 'offline', 310), agent('c', 'offline', 900), ended('d')],
      events: [row({}), row({}), row({})],
    })
    expect(items.map(({ headline, facts }) => [headline, facts])).toEqual([
      ['a used a decoy', '3 times in 24 h'],
      ['2 agents went silent together', 'b, a · likely the same host or network'],
      ['c is silent', 'no heartbeat since then'],
    ])
  })

  test('has one line per open anomaly, and ignores reports by callers', () => {
    const about = (event_type: string, episode: string, severity: Row['severity'] = 'warning', by_service = true) =>
      row({ event_type, severity, by_service, metadata: { metric: 'calls', episode } })
    const rose = about('anomaly_detected', 'one', 'critical')
    const { items } = verdict({
      events: [rose],
      anomalies: [
        about('anomaly_ended', 'over', 'info'),
        about('anomaly_ended', 'two', 'info', false),
        rose,
        about('anomaly_detected', 'one'),
        about('anomaly_detected', 'over'),
        about('anomaly_detected', 'two'),
        about('anomaly_detected', 'invented', 'critical', false),
      ],
    })
    expect(items.map(({ key, kind, severity }) => [key, kind, severity])).toEqual([
      ['anomaly one', 'critical', 'critical'],
      ['anomaly two', 'anomaly', 'warning'],
    ])
    const acknowledged = verdict({ anomalies: [rose], alerts: [[rose.id, 'acknowledged']] })
    expect(acknowledged.items).toEqual([])
  })

  test('lists an agent that was active while suspended, unless its report has an acknowledged alert', () => {
    const violated: Agent = { ...suspended('a', 21), suspension: { state: 'violated', since: at(10) } }
    const [item] = verdict({ fleet: [violated] }).items
    expect([item?.headline, item?.severity]).toEqual(['a was active although suspended', 'breach'])
    const report = row({ event_type: 'activity_while_suspended' })
    const seen = verdict({ fleet: [violated], events: [report], alerts: [[report.id, 'acknowledged']] })
    expect(seen.items).toEqual([])
    const proven: Agent = { ...suspended('a', 21), suspension: { state: 'proven', since: at(10) } }
    expect(verdict({ fleet: [proven] }).items).toEqual([])
  })

  test('lists incomplete containments after their deadline, before their agents', () => {
    const partial = {
      id: 'one',
      action: 'suspend',
      state: 'partial',
      requested: 3,
      confirmed: 1,
      missing_count: 2,
      requested_at: at(60),
      reason: 'r',
    } as ContainmentSummary
    const { items, sentence } = verdict({
      fleet: [suspended('a'), suspended('b')],
      containments: [partial],
      events: [row({ severity: 'critical' })],
    })
    expect(items.map(({ kind }) => kind)).toEqual(['containment', 'unconfirmed', 'unconfirmed', 'critical'])
    expect(items[0]?.headline).toBe('Partial: 1 of 3 agents confirmed the suspension')
    expect(sentence).toBe('Partial: 1 of 3 agents confirmed the suspension.')
  })

  // After a fleet-wide suspension, its agents would push everything else out of the queue.
  test('combines unconfirmed agents into one line when there are too many to name', () => {
    const ids = Array.from({ length: 12 }, (_, index) => `agent-${10 + index}`)
    const fleet = [...ids.map((id) => suspended(id)), agent('b')]
    const { items, sentence } = verdict({ fleet, events: [row({ severity: 'critical', instance_id: 'b' })] })
    expect(items.map(({ kind, agents }) => [kind, agents])).toEqual([
      ['unconfirmed', 12],
      ['critical', undefined],
    ])
    expect(items[0]?.headline).toBe('12 agents have not confirmed their suspension')
    expect(items[0]?.facts).toMatch(/^agent-10, agent-11, agent-12 and 9 more · for .*: they may still be working$/)
    expect(sentence).toBe('12 agents have not confirmed their suspension.')
    expect(verdict({ fleet: fleet.slice(0, 3) }).items.map(({ agentId }) => agentId)).toEqual(ids.slice(0, 3))
  })

  test('lists the brake while it is engaged, not the event that engaged it', () => {
    const brake = { engaged: true, engaged_at: at(60), engaged_by_event: 'one', refused: 3 }
    const events = [row({ severity: 'critical', event_type: 'brake_engaged', instance_id: null })]
    const { items, sentence } = verdict({ brake, events })
    expect(items.map(({ kind, facts }) => [kind, facts])).toEqual([['brake', '3 automatic suspensions refused']])
    expect(sentence).toBe('The brake is engaged: nothing is suspended automatically.')
    expect(verdict({ brake: { ...brake, engaged: false }, events }).items).toEqual([])
  })

  test('combines agents that do not respond to drills into one line until they respond', () => {
    const about = (instance_id: string, by_service = true) =>
      row({ event_type: 'drill_overdue', severity: 'warning', instance_id, by_service })
    const overdue = [about('a'), about('b'), about('c', false)]
    const fleet = [agent('a'), agent('b'), agent('c')]
    const { items } = verdict({ fleet, overdue })
    expect(items.map(({ headline, facts }) => [headline, facts])).toEqual([
      ['2 agents do not answer drills', 'a, b · a suspension may not reach them'],
    ])
    const answered = fleet.map((one) => ({ ...one, last_proven_stoppable_at: at(5) }))
    expect(verdict({ fleet: answered, overdue }).items).toEqual([])
  })
})
