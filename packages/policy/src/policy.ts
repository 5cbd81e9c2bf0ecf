import { type Condition, comparerOf, type Modifier, modifiers, type Scalar } from './conditions.ts'
import { type Flow, flows } from './flow.ts'
import { matchesGlob } from './glob.ts'
import type { ToolLabels } from './labels.ts'
import { readLabelsWith } from './read-labels.ts'
import { type Fields, isFields, join, type PolicyFault, policyLimits, Reader } from './reader.ts'
import { type ToolPattern, toolPattern } from './tool-match.ts'

export const decisions = ['allow', 'ask', 'deny'] as const
export type Decision = (typeof decisions)[number]

/** Parts of a session in which calls are made: by the main agent, or by one that it started. */
const scopes = ['main', 'subagent'] as const
export type Scope = (typeof scopes)[number]

/** A call in a case of a rule. */
export interface CaseCall {
  tool: string
  args: Record<string, unknown>
  agent?: string
  tags?: readonly string[]
  scope?: Scope
  /** Milliseconds since the epoch. */
  at?: number
}

export interface Rule {
  title: string
  decision: Decision
  match: {
    tools: readonly ToolPattern[]
    agents: readonly string[]
    tags: readonly string[]
    /** None: every call. A call whose part is unknown cannot be evaluated. */
    scopes: readonly Scope[]
  }
  when: readonly Condition[]
  /** Takes effect for the call that exceeds `max` within `withinMs`: a number of calls, or the sum of the argument `of`. */
  limit: { of: string | undefined; max: number; withinMs: number } | undefined
  /** Minutes of the day in UTC, from and to; over midnight if `to` is smaller. */
  hours: { from: number; to: number } | undefined
  expiresAt: number | undefined
  /** People who have to approve what the rule asks about. */
  approvals: 1 | 2
  /** How long a question of the rule waits for an answer. */
  waitMs: number
  cases: { match: readonly CaseCall[]; no_match: readonly CaseCall[] }
}

/** Agents by id (`pay-*`) and by the tags that operators gave them. No entries of a kind match every agent. */
interface Whom {
  agents: readonly string[]
  tags: readonly string[]
}

export interface Agent {
  id: string
  tags: readonly string[]
}

export interface Policy {
  title: string
  mode: 'observe' | 'enforce'
  for: Whom
  /** Agents for which the policy is enforced while its mode is observe. */
  enforceFor: Whom | undefined
  /** For a call that no rule matches. */
  default: Decision
  rules: readonly Rule[]
  flow: Flow
  labels: ReadonlyMap<string, ToolLabels>
}

/** How long a question waits for an answer, in milliseconds, unless its rule says otherwise. */
export const defaultWaitMs = 600_000

/**
 * Returns what a rule decides, how many people a question of it is for, and how long it waits; undefined for a rule that
 * the policy does not have. `rule`: as in decisions, so `flow` is the flow, and null the default.
 */
export function askOf(
  { rules, default: byDefault }: Policy,
  rule: string | null,
): Pick<Rule, 'decision' | 'approvals' | 'waitMs'> | undefined {
  const found = rules.find(({ title }) => title === rule)
  if (found) return { decision: found.decision, approvals: found.approvals, waitMs: found.waitMs }
  if (rule !== null && rule !== 'flow') return undefined
  return { decision: rule === null ? byDefault : 'ask', approvals: 1, waitMs: defaultWaitMs }
}

/** Reads a policy from a parsed document. The policy holds only if there is no fault. It throws at no document. */
export function readPolicy(document: unknown): { policy: Policy; faults: PolicyFault[] } {
  const reader = new Reader()
  const known = ['title', 'description', 'mode', 'for', 'enforce_for', 'default', 'rules', 'flow', 'labels']
  const fields = reader.fields(document, '', known)
  const rules = fields.rules ?? []
  if (!Array.isArray(rules) || rules.length > policyLimits.rules) {
    reader.fault('rules', `must be a list of at most ${policyLimits.rules} rules.`)
  }
  const policy: Policy = {
    title: reader.text(fields.title, 'title'),
    mode: reader.choice(fields.mode, 'mode', ['observe', 'enforce'], 'observe'),
    for: readWhom(reader, fields.for, 'for') ?? { agents: [], tags: [] },
    enforceFor: readWhom(reader, fields.enforce_for, 'enforce_for'),
    default: reader.choice(fields.default, 'default', decisions, 'allow'),
    rules: (Array.isArray(rules) ? rules.slice(0, policyLimits.rules) : []).map((rule, at) =>
      readRule(reader, rule, `rules[${at}]`),
    ),
    flow: reader.choice(fields.flow, 'flow', flows, 'off'),
    labels: readLabelsWith(reader, fields.labels, 'labels'),
  }
  const titles = new Set<string>()
  for (const [at, { title }] of policy.rules.entries()) {
    if (titles.has(title)) reader.fault(`rules[${at}].title`, 'is the title of another rule.')
    titles.add(title)
  }
  return { policy, faults: reader.faults }
}

/**
 * Whether a policy by its `for`, or a rule by its `match`, is for an agent. `tags`: those that operators gave it, never what
 * it reports.
 */
export function isForAgent({ agents, tags }: Whom, { id, tags: given = [] }: Partial<Agent>): boolean {
  return (
    (agents.length === 0 || agents.some((pattern) => id !== undefined && matchesGlob(pattern, id))) &&
    (tags.length === 0 || tags.some((tag) => given.includes(tag)))
  )
}

/** Returns the mode in which a policy holds for one agent that it is for. */
export function modeFor({ mode, enforceFor }: Policy, agent: Agent): 'observe' | 'enforce' {
  return mode === 'enforce' || (enforceFor !== undefined && isForAgent(enforceFor, agent)) ? 'enforce' : 'observe'
}

function readWhom(reader: Reader, value: unknown, path: string): Whom | undefined {
  if (value === undefined) return undefined
  const fields = reader.fields(value, path, ['agents', 'tags'])
  return {
    agents: reader.texts(fields.agents, join(path, 'agents'), policyLimits.values),
    tags: reader.texts(fields.tags, join(path, 'tags'), policyLimits.values),
  }
}

const ruleFields = [
  'title',
  'description',
  'decision',
  'match',
  'when',
  'limit',
  'hours',
  'expires_at',
  'approvals',
  'wait',
  'cases',
]

function readRule(reader: Reader, value: unknown, path: string): Rule {
  const fields = reader.fields(value, path, ruleFields)
  const match = reader.fields(fields.match ?? {}, join(path, 'match'), ['tool', 'agent', 'tags', 'scope'])
  const tools = reader.texts(match.tool, join(path, 'match.tool'), policyLimits.tools).map((text, at) => {
    const pattern = toolPattern(text)
    if (!pattern) reader.fault(`${path}.match.tool[${at}]`, 'must be a name such as send_email, or Bash(rm -rf *).')
    return pattern ?? { text, name: text, argument: undefined }
  })
  const decision = reader.choice(fields.decision, join(path, 'decision'), decisions)
  for (const name of ['approvals', 'wait']) {
    if (fields[name] !== undefined && decision !== 'ask') {
      reader.fault(join(path, name), 'is only for rules whose decision is ask.')
    }
  }
  const approvals = fields.approvals ?? 1
  if (approvals !== 1 && approvals !== 2) reader.fault(join(path, 'approvals'), 'must be 1 or 2.')
  return {
    title: reader.text(fields.title, join(path, 'title')),
    decision,
    match: {
      tools,
      agents: reader.texts(match.agent, join(path, 'match.agent'), policyLimits.values),
      tags: reader.texts(match.tags, join(path, 'match.tags'), policyLimits.values),
      scopes: reader.choices(match.scope, join(path, 'match.scope'), scopes),
    },
    when: readConditions(reader, fields.when, join(path, 'when')),
    limit: readLimit(reader, fields.limit, join(path, 'limit')),
    hours: readHours(reader, fields.hours, join(path, 'hours')),
    expiresAt: fields.expires_at === undefined ? undefined : reader.time(fields.expires_at, join(path, 'expires_at')),
    approvals: approvals === 2 ? 2 : 1,
    waitMs:
      fields.wait === undefined
        ? defaultWaitMs
        : (reader.duration(fields.wait, join(path, 'wait'), { min: '10s', max: '1d' }) ?? defaultWaitMs),
    cases: readCases(reader, fields.cases, join(path, 'cases')),
  }
}

function readConditions(reader: Reader, value: unknown, path: string): Condition[] {
  if (value === undefined) return []
  const entries = Object.entries(isFields(value) ? value : {})
  if (entries.length === 0 || entries.length > policyLimits.conditions) {
    reader.fault(path, `must be a map of 1 to ${policyLimits.conditions} conditions, such as recipients|not_host.`)
  }
  return entries.slice(0, policyLimits.conditions).map(([key, wanted]) => readCondition(reader, key, wanted, path))
}

function readCondition(reader: Reader, key: string, wanted: unknown, path: string): Condition {
  const [name = '', word = 'glob', ...rest] = key.split('|')
  const isNegated = word.startsWith('not_')
  const modifier = (isNegated ? word.slice('not_'.length) : word) as Modifier
  const place = `${path}.${key}`
  if (name === '' || key.length > policyLimits.textLength || rest.length > 0 || !modifiers.includes(modifier)) {
    const names = modifiers.join(', ')
    reader.fault(place, `must be an argument and one of ${names}, or not_ before one of them.`)
  }
  const list = (Array.isArray(wanted) ? wanted : [wanted]) as Scalar[]
  if (list.length === 0 || list.length > policyLimits.values) {
    reader.fault(place, `must have 1 to ${policyLimits.values} values.`)
  }
  const isNumeric = /^(?:lt|gt)e?$/.test(modifier)
  const isRight = (one: unknown) =>
    isNumeric ? Number.isFinite(one) : ['string', 'number', 'boolean'].includes(typeof one)
  if (!list.every(isRight)) reader.fault(place, `must be ${isNumeric ? 'a number' : 'texts, numbers or truth values'}.`)
  if (list.some((one) => typeof one === 'string' && one.length > policyLimits.textLength)) {
    reader.fault(place, `must have values of at most ${policyLimits.textLength} characters.`)
  }
  const some = list.slice(0, policyLimits.values)
  return {
    key,
    name,
    modifier,
    isNegated,
    wanted: some,
    comparer: comparerOf(modifier, some),
    patterns: modifier === 're' ? reader.patterns(some, place) : [],
  }
}

function readLimit(reader: Reader, value: unknown, path: string): Rule['limit'] {
  if (value === undefined) return undefined
  const { calls, total, of, within } = reader.fields(value, path, ['calls', 'total', 'of', 'within'])
  const withinMs = reader.duration(within, `${path}.within`, { min: '1s', max: '1d' })
  if ((calls === undefined) === (total === undefined)) {
    return reader.fault(path, 'must have calls, or total and of.')
  }
  if (calls !== undefined) {
    const { calls: max } = policyLimits
    if (!Number.isSafeInteger(calls) || (calls as number) < 1 || (calls as number) > max) {
      return reader.fault(`${path}.calls`, `must be a whole number from 1 to ${max}.`)
    }
    if (of !== undefined) reader.fault(`${path}.of`, 'is only for a total.')
    return { of: undefined, max: calls as number, withinMs: withinMs ?? 0 }
  }
  if (typeof total !== 'number' || !(total >= 0 && total <= Number.MAX_SAFE_INTEGER)) {
    return reader.fault(`${path}.total`, 'must be a number from 0 on.')
  }
  return { of: reader.text(of, `${path}.of`), max: total, withinMs: withinMs ?? 0 }
}

function readHours(reader: Reader, value: unknown, path: string): Rule['hours'] {
  if (value === undefined) return undefined
  const numbers =
    typeof value === 'string' &&
    /^([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)$/.exec(value)?.slice(1).map(Number)
  if (!numbers) return reader.fault(path, 'must be times of the day in UTC such as 22:00-06:00.')
  return { from: numbers[0]! * 60 + numbers[1]!, to: numbers[2]! * 60 + numbers[3]! }
}

function readCases(reader: Reader, value: unknown, path: string): Rule['cases'] {
  if (value === undefined) return { match: [], no_match: [] }
  const fields = reader.fields(value, path, ['match', 'no_match'])
  const listed = (name: 'match' | 'no_match'): CaseCall[] => {
    const list = fields[name] ?? []
    if (!Array.isArray(list) || list.length > policyLimits.cases) {
      reader.fault(`${path}.${name}`, `must be a list of at most ${policyLimits.cases} calls.`)
      return []
    }
    return list.map((one, at) => readCase(reader, one, `${path}.${name}[${at}]`))
  }
  return { match: listed('match'), no_match: listed('no_match') }
}

function readCase(reader: Reader, value: unknown, path: string): CaseCall {
  const call = reader.fields(value, path, ['tool', 'args', 'agent', 'tags', 'scope', 'at'])
  const args: Fields = isFields(call.args) ? call.args : {}
  if (call.args !== undefined && !isFields(call.args)) reader.fault(join(path, 'args'), 'must be a map.')
  return {
    tool: reader.text(call.tool, join(path, 'tool')),
    args,
    ...(call.agent === undefined ? {} : { agent: reader.text(call.agent, join(path, 'agent')) }),
    ...(call.tags === undefined ? {} : { tags: reader.texts(call.tags, join(path, 'tags'), policyLimits.values) }),
    ...(call.scope === undefined ? {} : { scope: reader.choice(call.scope, join(path, 'scope'), scopes) }),
    ...(call.at === undefined ? {} : { at: reader.time(call.at, join(path, 'at')) ?? 0 }),
  }
}

/** Whether the policy may deny a call of this tool, or ask about it. What the arguments say is not known. */
export const mayRestrict = ({ default: byDefault, rules }: Policy, tool: string): boolean =>
  byDefault !== 'allow' ||
  rules.some(
    ({ decision, match: { tools } }) =>
      decision !== 'allow' && tools.some(({ name }) => matchesGlob(name, tool.toLowerCase())),
  )
