import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { costFault } from '../../packages/server/src/features/rules/language/cost.ts'
import type { RuleEvent } from '../../packages/server/src/features/rules/language/fields.ts'
import { parseRules } from '../../packages/server/src/features/rules/language/rule.ts'
import { RuleSet } from '../../packages/server/src/features/rules/language/rule-set.ts'
import { ruleStates } from '../../packages/server/src/features/rules/language/rule-state.ts'
import { exampleRow } from '../../packages/server/src/features/rules/language/rule-tests.ts'
import { ValueMemory } from '../../packages/server/src/features/rules/language/value-memory.ts'
import { WorkBudget } from '../../packages/server/src/work-turns.ts'
import type { Figure } from '../report.ts'
import { median } from '../statistics.ts'

export const ruleCount = 100

const tools = ['web-search', 'file-read', 'http-request', 'shell-exec', 'email-send', 'code-exec']

/** Typical rules: most count calls of a group, some match texts, some compare with earlier values. */
export function rule(n: number): object {
  const tool = { event_type: 'tool_call', tool: tools[n % tools.length] }
  const never = { condition: { gte: 1_000 }, timespan: '10s', 'group-by': ['instance_id'] }
  const common = { title: `Rule ${n}`, severity: 'warning' }
  switch (n % 10) {
    case 0:
    case 1:
    case 2:
    case 3:
      return { ...common, detection: { tool, condition: 'tool' }, correlation: { type: 'event_count', ...never } }
    case 4:
    case 5:
      return {
        ...common,
        detection: { host: { event_type: 'tool_call', 'metadata.host|endswith': `.${n}.example` }, condition: 'host' },
      }
    case 6:
      return {
        ...common,
        detection: { refused: { event_type: 'policy_violation' }, condition: 'refused' },
        correlation: { type: 'value_count', field: 'session_id', ...never },
      }
    case 7:
      return { ...common, detection: { text: { 'description|re': `secret-[0-9]{${(n % 7) + 1}}` }, condition: 'text' } }
    case 8:
      return {
        ...common,
        detection: { tool, blocked: { event_type: 'egress_blocked', 'metadata.duration_ms|gte': 2_000 } },
        correlation: {
          type: 'temporal_ordered',
          rules: ['tool', 'blocked'],
          'group-by': ['instance_id'],
          timespan: '5m',
        },
      }
    default:
      return {
        ...common,
        detection: { tool, condition: 'tool' },
        correlation: { type: 'new_value', field: 'metadata.host', 'group-by': ['instance_id'], timespan: '30d' },
      }
  }
}

const evaluated = 200_000
const evaluatedRounds = 5
const keys = 1_000_000
const worstEvents = 200

/** Rules without a service, evaluated like in the runner and in backtests. */
function ruleSet(documents: readonly object[]) {
  const rules = documents.flatMap((document) => parseRules(JSON.stringify(document)).rules)
  if (rules.length < documents.length) throw new Error('A rule of the benchmark does not compile.')
  const running = rules.map(({ rule }) => ({
    compiled: rule,
    state: ruleStates.start(rule),
    history: new ValueMemory(),
  }))
  return { set: new RuleSet(running), running }
}

function ruleEvent(seq: number, instance = `bench-agent-${seq % 200}`): RuleEvent {
  const kind = seq % 20
  const row = exampleRow(seq, Date.UTC(2026, 0, 5) + seq, {
    source: 'bench',
    event_type: kind === 0 ? 'policy_violation' : kind === 1 ? 'egress_blocked' : 'tool_call',
    description: 'The reply was handed to the model. '.repeat(3),
    instance_id: instance,
    session_id: `session-${seq % 1_000}`,
    ip_address: '127.0.0.1',
    observed_ip_address: '127.0.0.1',
    metadata: { tool: tools[seq % tools.length], host: `host-${seq % 50}.example`, duration_ms: seq % 900 },
  })
  return { row, tags: [] }
}

/** Events per second that one core evaluates. */
export function measureEvaluation(): Figure {
  const { set } = ruleSet(Array.from({ length: ruleCount }, (_, n) => rule(n)))
  const rounds: number[] = []
  let seq = 0
  for (let round = 0; round < evaluatedRounds; round++) {
    const events = Array.from({ length: evaluated }, () => ruleEvent(++seq))
    const before = process.cpuUsage()
    for (const event of events) set.take(event)
    const { user, system } = process.cpuUsage(before)
    rounds.push((evaluated / (user + system)) * 1_000_000)
  }
  const none = { sides: [], notes: [], faults: [] }
  return {
    ...none,
    name: `events through ${ruleCount} rules, one core`,
    value: median(rounds),
    unit: '/s',
    min: 100_000,
    rounds,
  }
}

const collectGarbage: () => void = (() => {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc')
})()
function heapBytes(): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}

/** Memory of a rule after a million groups with one event each. */
export function measureBound(): Figure {
  const document = {
    title: 'Counts each agent',
    severity: 'warning',
    detection: { call: { event_type: 'tool_call' }, condition: 'call' },
    correlation: { type: 'event_count', 'group-by': ['instance_id'], timespan: '30d', condition: { gte: 5 } },
  }
  const { set, running } = ruleSet([document])
  const before = heapBytes()
  for (let key = 0; key < keys; key++) set.take(ruleEvent(20 * key + 2, `agent-${key}`))
  const grown = heapBytes() - before
  const { state } = running[0]!
  return {
    name: `heap of a rule after ${keys.toLocaleString('en')} keys`,
    value: grown / 1024 ** 2,
    unit: 'MiB',
    sides: [],
    notes: [`${state.root.groups.size} groups kept, ${state.memory.evicted} evicted`],
    faults: state.root.groups.size + state.memory.evicted === keys ? [] : ['groups were lost without being counted'],
  }
}

const heavy = (index: number) => ({
  title: `Heavy ${index}`,
  severity: 'warning',
  detection: {
    text: { 'metadata.a|contains': Array.from({ length: 480 }, (_, value) => `aaaaa${index}-${value}`) },
    pattern: { 'metadata.a|re': Array.from({ length: 18 }, (_, value) => `[ab]+${index}x${value}`) },
    condition: 'text or pattern',
  },
})

/** Longest turn of the event loop for the costliest event, through rules that together reach the limit of their cost. */
export function measureWorstEvent(): Figure {
  const documents: object[] = []
  for (let others = 0; ; ) {
    const document = heavy(documents.length)
    const { cost } = parseRules(JSON.stringify(document)).rules[0]!.rule
    if (costFault(cost, others) !== undefined) break
    others += cost
    documents.push(document)
  }
  const { set } = ruleSet(documents)
  const rounds: number[] = []
  const totals: number[] = []
  for (let seq = 1; seq <= worstEvents; seq++) {
    const event = ruleEvent(seq)
    event.row.metadata = { a: 'a'.repeat(16_000) }
    const steps = set.takeInSlices(event, new WorkBudget(Number.POSITIVE_INFINITY))
    let longest = 0
    let total = 0
    for (let isDone = false; !isDone; ) {
      const before = process.threadCpuUsage()
      isDone = steps.next().done === true
      const { user, system } = process.threadCpuUsage(before)
      longest = Math.max(longest, (user + system) / 1_000)
      total += (user + system) / 1_000
    }
    rounds.push(longest)
    totals.push(total)
  }
  return {
    name: 'costliest event through the costliest rules, longest turn',
    value: median(rounds),
    unit: 'ms',
    max: 5,
    sides: [],
    rounds: [Math.max(...rounds)],
    notes: [
      `${documents.length} rules, ${median(totals).toFixed(1)} ms of processor time for each event in all its turns`,
    ],
    faults: [],
  }
}
