import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { between, pick, seededRandom } from '../../packages/cli/src/simulate/random.ts'
import { roles } from '../../packages/cli/src/simulate/story.ts'
import { pickCall } from '../../packages/cli/src/simulate/tool-calls.ts'
import { toolCallEvent } from '../../packages/sdk/src/events.ts'
import { hourMs } from '../../packages/server/src/clock.ts'
import type { RuleEvent } from '../../packages/server/src/features/rules/language/fields.ts'
import { type CompiledRule, parseRules } from '../../packages/server/src/features/rules/language/rule.ts'
import { RuleSet } from '../../packages/server/src/features/rules/language/rule-set.ts'
import { ruleStates } from '../../packages/server/src/features/rules/language/rule-state.ts'
import { exampleRow } from '../../packages/server/src/features/rules/language/rule-tests.ts'
import { ValueMemory } from '../../packages/server/src/features/rules/language/value-memory.ts'
import { starterTexts } from '../../packages/server/src/features/rules/starter-rules.ts'
import type { Figure } from '../report.ts'

// What is assumed of agents; the figures are proportional to the first two.
const agents = 1_000
const callsPerDay = 200
/** An agent works this long a day, so that its calls are as dense as in a day of work. */
const workingMs = 8 * hourMs
/** Milliseconds between two calls of a session, as fast as models answer. */
const thinkingMs = [5_000, 20_000] as const
const seed = 31
/** Different calls shown for a rule that fires. */
const shownExamples = 3

interface Call {
  tool: string
  args?: unknown
  ok?: boolean
}
/** Part of an event, without what differs from agent to agent. */
type CallEvent = Pick<RuleEvent['row'], 'event_type' | 'description' | 'metadata'>
/** The calls of an agent for one task. */
type Session = readonly CallEvent[]

/** The event as the SDK reports it, which reads action, paths, hosts and command from the arguments. */
function eventOf({ tool, args, ok }: Call): CallEvent {
  const event = toolCallEvent({ toolName: tool, params: args, ok, durationMs: 100 }, 'agent')
  if (typeof event === 'string') throw new Error(event)
  return { event_type: event.event_type, description: event.description, metadata: event.metadata ?? null }
}

/** What a rule found: alerts a day of 1,000 agents, and some of the calls that made them. */
interface Found {
  name: string
  perDay: number
  isHunting: boolean
  examples: readonly string[]
}

const isHunting = ({ compiled }: { compiled: CompiledRule }) =>
  compiled.document.tags?.includes('pack.hunting') ?? false
const isCorrelated = ({ compiled }: { compiled: CompiledRule }) => compiled.document.correlation !== undefined

const startRules = () =>
  starterTexts().map(({ name, text }) => {
    const { rule } = parseRules(text).rules[0]!
    return { name, compiled: rule, state: ruleStates.start(rule), history: new ValueMemory() }
  })
type Running = ReturnType<typeof startRules>[number]

/** What a person needs to see of a call to know why a rule fired. */
function exampleOf({ metadata }: RuleEvent['row']): string {
  const { toolName, command, params } = (metadata ?? {}) as Record<string, unknown>
  return JSON.stringify(command ?? { [String(toolName)]: params }).slice(0, 160)
}

/** Counts what these rules find in events. `scale` makes a day of 1,000 agents of the count. */
function count(rules: readonly Running[], events: Iterable<RuleEvent>, scale: number): Found[] {
  const set = new RuleSet(rules)
  const fired = new Map(rules.map((rule) => [rule, { count: 0, examples: new Set<string>() }]))
  for (const event of events) {
    for (const { running } of set.take(event)) {
      const found = fired.get(running)!
      found.count += 1
      if (found.examples.size < shownExamples) found.examples.add(exampleOf(event.row))
    }
  }
  return [...fired]
    .filter(([, found]) => found.count > 0)
    .map(([rule, found]) => ({
      name: rule.name,
      perDay: found.count * scale,
      isHunting: isHunting(rule),
      examples: [...found.examples],
    }))
}

const start = Date.UTC(2026, 0, 5)

/** Each call once, for rules that judge a call alone: cooldowns count as if every call were of another agent. */
function* each(sessions: readonly Session[]): Generator<RuleEvent> {
  let seq = 0
  for (const event of sessions.flat()) {
    seq += 1
    yield { row: exampleRow(seq, start + seq, { ...event, instance_id: `agent-${seq}` }), tags: [] }
  }
}

/** A day of all agents in order of time. Between its sessions an agent pauses, so that it makes `callsPerDay` calls. */
function* play(sessions: readonly Session[]): Generator<RuleEvent> {
  const random = seededRandom(seed)
  const due: { at: number; agent: number; session: string; event: CallEvent }[] = []
  for (let agent = 0; agent < agents; agent += 1) {
    for (let at = between(random, 0, hourMs), number = 0; at < workingMs; number += 1) {
      const events = pick(random, sessions)
      const begun = at
      for (const event of events) {
        at += between(random, ...thinkingMs)
        due.push({ at, agent, session: `${agent}-${number}`, event })
      }
      at = Math.max(at, begun + between(random, 0.5, 1.5) * (events.length / callsPerDay) * workingMs)
    }
  }
  due.sort((a, b) => a.at - b.at)
  for (const [index, { at, agent, session, event }] of due.entries()) {
    const about = { ...event, instance_id: `agent-${agent}`, session_id: session }
    yield { row: exampleRow(index + 1, start + at, about), tags: [] }
  }
}

/** Rules of one call are counted over the recorded calls, correlations of other packs than `hunting` over a day of them. */
function measureSessions(name: string, sessions: readonly Session[]): Figure {
  const calls = sessions.flat().length
  const rules = startRules()
  const alone = rules.filter((rule) => !isCorrelated(rule))
  const together = rules.filter((rule) => isCorrelated(rule) && !isHunting(rule))
  const found = [...count(alone, each(sessions), (agents * callsPerDay) / calls), ...count(together, play(sessions), 1)]
  const of = `${sessions.length} sessions of ${calls} calls; ${callsPerDay} calls per agent in ${workingMs / hourMs} h a day`
  return figureOf(name, found, of)
}

function figureOf(name: string, found: readonly Found[], of: string): Figure {
  const lines = found
    .toSorted((a, b) => b.perDay - a.perDay)
    .map((rule) => {
      const title = `${rule.name}${rule.isHunting ? ' (hunting, not counted)' : ''}`
      return `${title} ${rule.perDay.toFixed(2)}: ${rule.examples.join(' · ')}`
    })
  return {
    name: `alerts of 1,000 agents: ${name}`,
    value: found.reduce((sum, rule) => sum + (rule.isHunting ? 0 : rule.perDay), 0),
    unit: '/day',
    max: 1,
    sides: [],
    notes: [of, ...lines],
    faults: [],
  }
}

/** Sessions of `wardline simulate`, without its incidents. */
function simulated(): Session[] {
  const random = seededRandom(seed)
  return Array.from({ length: 500 }, (_, index) => {
    const role = roles[index % roles.length]!
    return Array.from({ length: 10 }, () => {
      const { toolName, params } = pickCall(random, role)
      return eventOf({ tool: toolName, args: params })
    })
  })
}

interface Line {
  calls?: Call[]
  created_at?: string
  instance_id?: string
}

function linesOf(file: string): Line[] {
  const lines = readFileSync(file, 'utf8').split('\n')
  return lines.filter((line) => line.trim() !== '').map((line) => JSON.parse(line) as Line)
}

/** Sessions `{ calls: [{ tool, args, ok }] }`, or events as `wardline events export` writes them. */
function measureFile(name: string, file: string): Figure {
  const lines = linesOf(file)
  if (lines.length === 0) throw new Error(`${file} is empty.`)
  if (lines[0]!.calls === undefined) return measureLog(name, lines as unknown as RuleEvent['row'][])
  const sessions = lines.map(({ calls = [] }) => calls.map(eventOf)).filter((events) => events.length > 0)
  return measureSessions(name, sessions)
}

/** Recorded events, at their own times, through all rules. */
function measureLog(name: string, rows: readonly RuleEvent['row'][]): Figure {
  const agentDays = new Set(rows.map((row) => `${row.instance_id} ${row.created_at.slice(0, 10)}`)).size
  const events = rows
    .toSorted((a, b) => Date.parse(a.created_at) - Date.parse(b.created_at))
    .map((row, index) => ({ row: exampleRow(index + 1, Date.parse(row.created_at), row), tags: [] }))
  const found = count(startRules(), events, agents / agentDays)
  return figureOf(name, found, `${rows.length} events in ${agentDays} days of an agent`)
}

/**
 * Alerts that the starter rules would make of traffic in which nothing is wrong, if all packs but `hunting` alerted.
 * `folder` has files of JSON Lines; without it, the calls of `wardline simulate` are measured.
 */
export async function measureFalseAlarms(folder?: string): Promise<Figure[]> {
  const files = folder === undefined ? [] : readdirSync(folder).filter((file) => /\.(?:jsonl|ndjson)$/.test(file))
  return [
    measureSessions('simulate', simulated()),
    ...files.toSorted().map((file) => measureFile(file, join(folder!, file))),
  ]
}
