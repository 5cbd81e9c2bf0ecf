import {
  alertTypes,
  type ContainmentSummary,
  eventTypes,
  type FleetState,
  limits,
  type Problem,
  titleOf,
} from '@wardline/contract'
import { describe, expect, test } from 'vitest'
import type { Agent } from '../data/fleet.ts'
import { isUnconfirmed, shownStatus } from '../data/fleet-counts.ts'
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

/** What the service counted: by default one decoy hit of the agent a. */
const problem = (fields: Partial<Problem> = {}): Problem => {
  const instances = fields.instances ?? ['a']
  return {
    severity: 'breach',
    by_service: true,
    event_type: 'honeypot_triggered',
    types: 1,
    agents: instances.length,
    instances,
    events: 1,
    first_at: at(60),
    last_at: at(60),
    last_seq: ++seq,
    source: 'x',
    description: 'd',
    open_alert: null,
    ...fields,
  }
}

/** What the service says of a fleet. */
function summaryOf(fleet: readonly Agent[]) {
  const count = (test: (agent: Agent) => boolean) => fleet.filter(test).length
  const stateOf = (agent: Agent) => shownStatus(agent) as FleetState['waiting'][number]['state']
  const waiting = Map.groupBy(
    fleet.filter((agent) => isUnconfirmed(stateOf(agent))),
    stateOf,
  )
  const sinceOf = ({ suspension, control }: Agent) => suspension?.since ?? control.changed_at ?? ''
  const quiet = fleet
    .filter((agent) => agent.status === 'offline' && agent.silent)
    .sort((one, other) => (one.last_heartbeat < other.last_heartbeat ? -1 : 1))
  const groups: Agent[][] = []
  for (const agent of quiet) {
    const last = groups.at(-1)?.at(-1)
    if (last && Date.parse(agent.last_heartbeat) - Date.parse(last.last_heartbeat) < 30_000) groups.at(-1)!.push(agent)
    else groups.push([agent])
  }
  const unconfirmed = count((agent) => isUnconfirmed(shownStatus(agent)))
  return {
    counts: {
      all: fleet.length,
      silent: quiet.length,
      offline: count(({ status }) => status === 'offline'),
      suspended: count(({ status }) => status === 'suspended'),
      unconfirmed,
      partial: count((agent) => shownStatus(agent) === 'partial'),
      unresumed: count(({ status, control }) => status !== 'suspended' && !control.confirmed),
    },
    waiting: [...waiting].map(([state, agents]) => ({
      state,
      agents: agents.length,
      since: agents.map(sinceOf).sort()[0]!,
      first: agents
        .slice(0, limits.fleetNamed)
        .map((agent) => ({ id: agent.id, since: sinceOf(agent), fail_mode: agent.fail_mode })),
    })),
    silent: groups.reverse().map((group) => ({
      agents: group.length,
      since: group[0]!.last_heartbeat,
      ids: group.slice(0, 3).map(({ id }) => id),
    })),
  }
}

interface Facts {
  fleet?: Agent[]
  problems?: Problem[]
  omitted?: number
  complete?: boolean
  violations?: Row[]
  hasMore?: boolean
  anomalies?: Row[]
  alerts?: [string, string][]
  overdue?: Row[]
  containments?: ContainmentSummary[]
  brake?: { engaged: boolean; engaged_at: string; engaged_by_event: string; refused: number }
  ageMs?: number
}
function verdict({
  fleet = [agent('a'), agent('b')],
  problems = [],
  omitted = 0,
  complete = true,
  violations = [],
  hasMore = false,
  anomalies = [],
  alerts = [],
  overdue = [],
  containments = [],
  brake,
  ageMs = 0,
}: Facts) {
  const { counts, waiting, silent } = summaryOf(fleet)
  const items = attentionOf({
    counts,
    agents: fleet,
    waiting,
    silent,
    problems: { problems, omitted, complete },
    anomalies,
    overdue,
    violations,
    hasMore: { anomalies: hasMore, overdue: hasMore },
    containments,
    brake,
    alerts: new Map(alerts),
    now,
  })
  const sentence = verdictOf({ counts, agents: fleet, items, omitted, ageMs })
  return { sentence, kinds: items.map(({ kind }) => kind), items }
}

describe('the verdict', () => {
  test('claims nothing about the current state from stale data', () => {
    expect(verdict({ ageMs: 23_400, problems: [problem()] }).sentence).toBe('No answer from the service for 23 s.')
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
    [{ problems: [problem()] }, 'a used a decoy and is still working.'],
    [{ problems: [problem(), problem({ instances: ['b'] })] }, '2 agents reported breaches; both are still working.'],
    [
      { fleet: [suspended('a', 21), agent('b')], problems: [problem()] },
      'a used a decoy. Suspended, confirmed after 21 ms.',
    ],
    [
      { problems: [problem({ severity: 'critical', event_type: 'data_export', by_service: false, source: 'a' })] },
      'a reports data_export.',
    ],
  ] satisfies [Facts, string][])('of %j is "%s"', (facts, sentence) => {
    expect(verdict(facts).sentence).toBe(sentence)
  })

  // "Suspended" is easily read as "stopped".
  test('says of a suspended agent with a problem that it has not confirmed, in one item', () => {
    const fleet = [suspended('a'), agent('b')]
    const { sentence, items } = verdict({ fleet, problems: [problem()] })
    expect(sentence).toBe('a used a decoy and has not confirmed its suspension.')
    const facts = 'suspended for 40 s: it may still be working · fails open'
    expect(items).toMatchObject([{ kind: 'breach', facts }])
    const critical = problem({ severity: 'critical', event_type: 'data_export', by_service: false, source: 'a' })
    expect(verdict({ fleet, problems: [critical] }).sentence).toBe(
      'a reports data_export and has not confirmed its suspension.',
    )
    const violated: Agent = { ...suspended('a', 21), suspension: { state: 'violated', since: at(10) } }
    const active = verdict({ fleet: [violated], problems: [problem()] })
    expect(active).toMatchObject({ sentence: 'a used a decoy and was active although suspended.', kinds: ['breach'] })
  })

  // The heading stayed with a stopped program of minutes ago while breached agents worked.
  test.each([1, 2, 4])('names %d working agents with breaches before a silent one that has not confirmed', (count) => {
    const gone: Agent = { ...suspended('curl-bot'), secondsAgo: 600 }
    const ids = ['a', 'b', 'c', 'd'].slice(0, count)
    const problems = [problem({ instances: ['curl-bot'], last_at: at(1) }), problem({ instances: ids })]
    const fleet = [gone, ...ids.map((id) => agent(id))]
    const { sentence, items } = verdict({ fleet, problems })
    expect(sentence).toMatch(new RegExp(`^${count + 1} agents reported breaches; ${count} (is|are) still working.$`))
    expect(items.map(({ agentId, agents }) => agentId ?? agents)).toEqual([count === 1 ? 'a' : count, 'curl-bot'])
    expect(verdict({ fleet, problems: problems.slice(1) }).kinds).toEqual(['breach', 'unconfirmed'])
  })

  test('does not call agents stopped that have not confirmed', () => {
    const problems = [problem(), problem({ instances: ['b'] })]
    expect(verdict({ fleet: [suspended('a'), suspended('b', 10)], problems }).sentence).toBe(
      '2 agents reported breaches; 1 has not confirmed its suspension.',
    )
  })

  test('names a working agent with a critical report before a breach by a suspended agent', () => {
    const critical = problem({ severity: 'critical', event_type: 'rule_matched', instances: ['b'] })
    const problems = [problem(), critical]
    const other = agent('b')
    expect(verdict({ problems, fleet: [suspended('a', 21), other] }).sentence).toBe('b matched a rule.')
    expect(verdict({ problems, fleet: [agent('a'), other] }).sentence).toBe('a used a decoy and is still working.')
  })

  // Any caller may report a type that only the service can know, so an attacker could blame another agent.
  test('does not trust a caller that reports a type that only the service can know', () => {
    const { items } = verdict({ problems: [problem({ by_service: false, source: 'b' })] })
    expect(items[0]?.headline).toBe('a: honeypot_triggered, claimed by another source')
  })
})

describe('the attention queue', () => {
  test('lists the worst items first', () => {
    const { kinds } = verdict({
      fleet: [agent('a'), suspended('b'), agent('c', 'offline', 300)],
      problems: [problem({ severity: 'critical' }), problem()],
    })
    expect(kinds).toEqual(['breach', 'unconfirmed', 'critical', 'offline'])
  })

  test('shows the open alert, how often it happened, and agents that went silent together', () => {
    const { items } = verdict({
      fleet: [agent('a', 'offline', 300), agent('b', 'offline', 310), agent('c', 'offline', 900), ended('d')],
      problems: [problem({ events: 3, open_alert: 'one' })],
    })
    expect(items.map(({ headline, facts, alertId }) => [headline, facts, alertId])).toEqual([
      ['a used a decoy', '3 times in 24 h', 'one'],
      ['2 agents went silent together', 'b, a · likely the same host or network', undefined],
      ['c is silent', 'no heartbeat since then', undefined],
    ])
  })

  // 166,667 events of 1,667 agents were 200 equal lines about 200 agents.
  test('has one line for a problem of many agents, which knows those that are running', () => {
    const ids = Array.from({ length: 1_667 }, (_, index) => `agent-${index}`)
    const flood = problem({
      severity: 'critical',
      by_service: false,
      event_type: 'prompt_injection_detected',
      instances: ids,
      events: 166_667,
      first_at: at(9_000),
    })
    const others = [agent('a'), agent('b')]
    const running = verdict({ fleet: [...ids.map((id) => agent(id)), ...others], problems: [flood] })
    expect(running.sentence).toBe('A prompt injection on 1,667 agents.')
    expect(running.items).toMatchObject([
      { facts: '166,667 events', firstAt: at(9_000), agents: 1_667, running: ids, agentIds: ids },
    ])
    const half = ids.map((id, index) => (index < 1_000 ? suspended(id, 10) : agent(id)))
    const single = problem({ severity: 'critical', event_type: 'rule_matched', instances: ['b'] })
    const partly = verdict({ fleet: [...half, ...others], problems: [single, flood] })
    expect(partly.sentence).toBe('2 critical problems of 1,668 agents in 24 h.')
    expect(partly.items.map(({ headline }) => headline)).toEqual([
      'A prompt injection on 1,667 agents',
      'b matched a rule',
    ])
    expect(partly.items[0]).toMatchObject({ facts: '166,667 events · 1,000 suspended', running: ids.slice(1_000) })
    // Stopped agents come after what is still running.
    const stopped = verdict({ fleet: [...ids.map((id) => suspended(id, 10)), ...others], problems: [single, flood] })
    expect(stopped.items.map(({ headline }) => headline)).toEqual([
      'b matched a rule',
      'A prompt injection on 1,667 agents',
    ])
    expect(stopped.items[1]?.running).toEqual([])
  })

  test('says that there are more where not all were counted or named', () => {
    const ids = ['a', 'b', 'c', 'd']
    const fleet = ids.map((id) => agent(id))
    const many = problem({ severity: 'critical', event_type: 'rule_matched', instances: ids, agents: 12_000 })
    expect(verdict({ fleet, problems: [many] }).sentence).toBe('12,000 agents matched a rule.')
    expect(verdict({ fleet, problems: [many], complete: false }).sentence).toBe(
      'More than 12,000 agents matched a rule.',
    )
    expect(verdict({ fleet, problems: [many], omitted: 7 }).sentence).toBe(
      '8 critical problems of more than 4 agents in 24 h.',
    )
    const about = (instance_id: string) =>
      row({ event_type: 'anomaly_detected', severity: 'warning', instance_id, metadata: { episode: instance_id } })
    const anomalies = ids.map(about)
    expect(verdict({ fleet, anomalies }).items.map(({ headline }) => headline)).toEqual(['4 agents behave unusually'])
    expect(verdict({ fleet, anomalies, hasMore: true }).items[0]?.headline).toBe('More than 4 agents behave unusually')
  })

  test('counts breaches of many agents by who is still working', () => {
    const fleet = ['a', 'b', 'c', 'd', 'e'].map((id) => agent(id))
    const instances = ['a', 'b', 'c', 'd']
    expect(verdict({ fleet, problems: [problem({ instances })] }).sentence).toBe(
      '4 agents used a decoy; all are still working.',
    )
    const stopped = fleet.map((one) => (one.id === 'a' ? one : suspended(one.id, 10)))
    const problems = [problem({ instances }), problem({ event_type: 'data_export', instances: ['e'] })]
    expect(verdict({ fleet: stopped, problems }).sentence).toBe('5 agents reported breaches; 1 is still working.')
  })

  test('has one line per open anomaly, and ignores reports by callers', () => {
    const about = (event_type: string, episode: string, severity: Row['severity'] = 'warning', by_service = true) =>
      row({ event_type, severity, by_service, metadata: { metric: 'calls', episode } })
    const rose = about('anomaly_detected', 'one', 'critical')
    const { items } = verdict({
      problems: [problem({ severity: 'critical', event_type: 'anomaly_detected' })],
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
    // The service's own report is a problem until its alert is acknowledged.
    const report = row({ event_type: 'activity_while_suspended' })
    expect(verdict({ fleet: [violated], violations: [report] }).items).toEqual([])
    const proven: Agent = { ...suspended('a', 21), suspension: { state: 'proven', since: at(10) } }
    expect(verdict({ fleet: [proven] }).items).toEqual([])
  })

  test('counts those of many that were active while suspended, of which the service names some', () => {
    const fleet = Array.from(
      { length: limits.fleetNamed + 5 },
      (_, index): Agent => ({ ...suspended(`a${index}`, 21), suspension: { state: 'violated', since: at(10) } }),
    )
    const { items } = verdict({ fleet })
    expect(items).toHaveLength(limits.fleetNamed + 1)
    expect(items.find(({ agents }) => agents === 5)).toMatchObject({
      severity: 'breach',
      headline: '5 more agents were active although suspended',
    })
  })

  // The newest line was an agent that had been stopped, with Resume as its button.
  test('lists what is still running before what is stopped already', () => {
    const { items } = verdict({
      fleet: [suspended('stopped', 10), agent('working'), suspended('unsure')],
      problems: [
        problem({ instances: ['stopped'], last_at: at(1) }),
        problem({ instances: ['working'], last_at: at(600) }),
        problem({ instances: ['working'], severity: 'critical', event_type: 'policy_violation', last_at: at(2) }),
      ],
    })
    expect(items.map(({ kind, agentId }) => `${kind} ${agentId}`)).toEqual([
      'breach working',
      'critical working',
      'unconfirmed unsure',
      'breach stopped',
    ])
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
      problems: [problem({ severity: 'critical' })],
    })
    expect(items.map(({ kind }) => kind)).toEqual(['containment', 'unconfirmed', 'critical'])
    expect(items[0]?.headline).toBe('Partial: 1 of 3 agents confirmed the suspension')
    expect(sentence).toBe('Partial: 1 of 3 agents confirmed the suspension.')
  })

  // After a fleet-wide suspension, its agents would push everything else out of the queue.
  test('combines unconfirmed agents into one line when there are too many to name', () => {
    const ids = Array.from({ length: 12 }, (_, index) => `agent-${10 + index}`)
    const fleet = [...ids.map((id) => suspended(id)), agent('b')]
    const { items, sentence } = verdict({ fleet, problems: [problem({ severity: 'critical', instances: ['b'] })] })
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
    const problems = [problem({ severity: 'critical', event_type: 'brake_engaged', instances: [] })]
    const { items, sentence } = verdict({ brake, problems })
    expect(items.map(({ kind, facts }) => [kind, facts])).toEqual([['brake', '3 automatic suspensions refused']])
    expect(sentence).toBe('The brake is engaged: nothing is suspended automatically.')
    expect(verdict({ brake: { ...brake, engaged: false }, problems }).items).toEqual([])
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

const known = [...Object.values(eventTypes), ...Object.values(alertTypes), 'data_export']
/** Their own lines say whether they are over. */
const otherwise: string[] = [eventTypes.brakeEngaged, eventTypes.anomalyDetected]
test.each(known.filter((type) => !otherwise.includes(type)))('%s has its title in the queue', (event_type) => {
  for (const by_service of [true, false]) {
    const { items } = verdict({ problems: [problem({ event_type, by_service, severity: 'critical', source: 'a' })] })
    expect(items[0]?.headline).toBe(titleOf({ event_type, by_service, instance_id: 'a', source: 'a' }))
  }
})
