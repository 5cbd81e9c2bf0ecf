import { type Modifier, modifiers, type Scalar } from './conditions.ts'
import { type Flow, flows } from './flow.ts'
import { type Label, labelNames, type ToolLabels } from './labels.ts'
import { packs } from './packs.ts'
import { type ToolPattern, toolPattern } from './tool-match.ts'

export const decisions = ['allow', 'ask', 'deny'] as const
export type Decision = (typeof decisions)[number]

interface Condition {
  /** As written: `recipients|not_host`. */
  key: string
  name: string
  modifier: Modifier
  isNegated: boolean
  wanted: readonly Scalar[]
}

/** A call in a case of a rule. */
export interface CaseCall {
  tool: string
  args: Record<string, unknown>
  agent?: string
  tags?: readonly string[]
  /** Milliseconds since the epoch. */
  at?: number
}

export interface Rule {
  title: string
  decision: Decision
  match: { tools: readonly ToolPattern[]; agents: readonly string[]; tags: readonly string[] }
  when: readonly Condition[]
  /** Takes effect from the call after `calls` within `withinMs`. */
  limit: { calls: number; withinMs: number } | undefined
  /** Minutes of the day in UTC, from and to; over midnight if `to` is smaller. */
  hours: { from: number; to: number } | undefined
  expiresAt: number | undefined
  cases: { match: readonly CaseCall[]; no_match: readonly CaseCall[] }
}

export interface Policy {
  title: string
  mode: 'observe' | 'enforce'
  for: { agents: readonly string[]; tags: readonly string[] }
  /** For a call that no rule matches. */
  default: Decision
  rules: readonly Rule[]
  flow: Flow
  labels: ReadonlyMap<string, ToolLabels>
}

/** A fault with its place in the document: `rules[2].when`. */
export interface PolicyFault {
  path: string
  message: string
}

/** Bounds of one policy: it travels to every agent, and each decision looks at all of its rules. */
const policyLimits = {
  rules: 200,
  tools: 200,
  conditions: 20,
  values: 500,
  cases: 50,
  textLength: 500,
  labels: 2_000,
  calls: 1_000,
  withinMs: 86_400_000,
} as const

type Fields = Record<string, unknown>
const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Reads parts of a document, and collects what is wrong with it. */
class Reader {
  readonly faults: PolicyFault[] = []

  fault(path: string, message: string): undefined {
    this.faults.push({ path, message })
  }

  fields(value: unknown, path: string, known: readonly string[]): Fields {
    if (!isFields(value)) {
      this.fault(path, 'must be a map of names and values.')
      return {}
    }
    for (const name of Object.keys(value)) {
      if (!known.includes(name)) this.fault(join(path, name), `is unknown; known are ${known.join(', ')}.`)
    }
    return value
  }

  text(value: unknown, path: string): string {
    if (typeof value === 'string' && value.trim() !== '' && value.length <= policyLimits.textLength) return value.trim()
    this.fault(path, `must be a text of 1 to ${policyLimits.textLength} characters.`)
    return ''
  }

  /** Reads a text or a list of texts. */
  texts(value: unknown, path: string, max: number): string[] {
    if (value === undefined) return []
    const list = Array.isArray(value) ? value : [value]
    if (list.length === 0 || list.length > max) this.fault(path, `must have 1 to ${max} entries.`)
    return list.slice(0, max).map((one, at) => this.text(one, Array.isArray(value) ? `${path}[${at}]` : path))
  }

  choice<Name extends string>(value: unknown, path: string, names: readonly Name[], missing?: Name): Name {
    if (value === undefined && missing !== undefined) return missing
    if (names.includes(value as Name)) return value as Name
    this.fault(path, `must be ${names.slice(0, -1).join(', ')} or ${names.at(-1)}.`)
    return names[0]!
  }
}

const join = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`)

/** Reads a policy from a parsed document. The policy holds only if there is no fault. */
export function readPolicy(document: unknown): { policy: Policy; faults: PolicyFault[] } {
  const reader = new Reader()
  const known = ['title', 'description', 'mode', 'for', 'default', 'rules', 'flow', 'labels']
  const fields = reader.fields(document, '', known)
  const whom = fields.for === undefined ? {} : reader.fields(fields.for, 'for', ['agents', 'tags'])
  const rules = fields.rules ?? []
  if (!Array.isArray(rules) || rules.length > policyLimits.rules) {
    reader.fault('rules', `must be a list of at most ${policyLimits.rules} rules.`)
  }
  const policy: Policy = {
    title: reader.text(fields.title, 'title'),
    mode: reader.choice(fields.mode, 'mode', ['observe', 'enforce'], 'observe'),
    for: {
      agents: reader.texts(whom.agents, 'for.agents', policyLimits.values),
      tags: reader.texts(whom.tags, 'for.tags', policyLimits.values),
    },
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

function readRule(reader: Reader, value: unknown, path: string): Rule {
  const known = ['title', 'description', 'decision', 'match', 'when', 'limit', 'hours', 'expires_at', 'cases']
  const fields = reader.fields(value, path, known)
  const match = reader.fields(fields.match ?? {}, join(path, 'match'), ['tool', 'agent', 'tags'])
  const tools = reader.texts(match.tool, join(path, 'match.tool'), policyLimits.tools).map((text, at) => {
    const pattern = toolPattern(text)
    if (!pattern) reader.fault(`${path}.match.tool[${at}]`, 'must be a name such as send_email, or Bash(rm -rf *).')
    return pattern ?? { text, name: text, argument: undefined }
  })
  return {
    title: reader.text(fields.title, join(path, 'title')),
    decision: reader.choice(fields.decision, join(path, 'decision'), decisions),
    match: {
      tools,
      agents: reader.texts(match.agent, join(path, 'match.agent'), policyLimits.values),
      tags: reader.texts(match.tags, join(path, 'match.tags'), policyLimits.values),
    },
    when: readConditions(reader, fields.when, join(path, 'when')),
    limit: readLimit(reader, fields.limit, join(path, 'limit')),
    hours: readHours(reader, fields.hours, join(path, 'hours')),
    expiresAt: readTime(reader, fields.expires_at, join(path, 'expires_at')),
    cases: readCases(reader, fields.cases, join(path, 'cases')),
  }
}

function readConditions(reader: Reader, value: unknown, path: string): Condition[] {
  if (value === undefined) return []
  const entries = Object.entries(isFields(value) ? value : {})
  if (entries.length === 0 || entries.length > policyLimits.conditions) {
    reader.fault(path, `must be a map of 1 to ${policyLimits.conditions} conditions, such as recipients|not_host.`)
  }
  return entries.map(([key, wanted]) => {
    const [name = '', word = 'glob', ...rest] = key.split('|')
    const isNegated = word.startsWith('not_')
    const modifier = (isNegated ? word.slice('not_'.length) : word) as Modifier
    const place = `${path}.${key}`
    if (name === '' || rest.length > 0 || !modifiers.includes(modifier)) {
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
    if (!list.every(isRight))
      reader.fault(place, `must be ${isNumeric ? 'a number' : 'texts, numbers or truth values'}.`)
    return { key, name, modifier, isNegated, wanted: list }
  })
}

function readLimit(reader: Reader, value: unknown, path: string): Rule['limit'] {
  if (value === undefined) return undefined
  const { calls, within } = reader.fields(value, path, ['calls', 'within'])
  const { calls: max } = policyLimits
  if (!Number.isSafeInteger(calls) || (calls as number) < 1 || (calls as number) > max) {
    reader.fault(`${path}.calls`, `must be a whole number from 1 to ${max}.`)
  }
  const [, number, unit] = /^(\d{1,5})\s*(s|m|h|d)$/.exec(String(within)) ?? []
  const withinMs = Number(number) * { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }[unit ?? 's']!
  if (!(withinMs > 0 && withinMs <= policyLimits.withinMs)) {
    return reader.fault(`${path}.within`, 'must be a time such as 30s, 15m or 1h, at most 1d.')
  }
  return { calls: Number(calls), withinMs }
}

function readHours(reader: Reader, value: unknown, path: string): Rule['hours'] {
  if (value === undefined) return undefined
  const numbers = /^([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)$/.exec(String(value))?.slice(1).map(Number)
  if (!numbers) return reader.fault(path, 'must be times of the day in UTC such as 22:00-06:00.')
  return { from: numbers[0]! * 60 + numbers[1]!, to: numbers[2]! * 60 + numbers[3]! }
}

function readTime(reader: Reader, value: unknown, path: string): number | undefined {
  if (value === undefined) return undefined
  const text = value instanceof Date ? value.toISOString() : String(value)
  const at = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?Z)?$/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(at) ? reader.fault(path, 'must be a date or a time in UTC such as 2026-12-31T18:00Z.') : at
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
    return list.map((one, at) => {
      const place = `${path}.${name}[${at}]`
      const call = reader.fields(one, place, ['tool', 'args', 'agent', 'tags', 'at'])
      return {
        tool: reader.text(call.tool, join(place, 'tool')),
        args:
          call.args === undefined
            ? {}
            : isFields(call.args)
              ? call.args
              : (reader.fault(join(place, 'args'), 'must be a map.') ?? {}),
        ...(call.agent === undefined ? {} : { agent: reader.text(call.agent, join(place, 'agent')) }),
        ...(call.tags === undefined ? {} : { tags: reader.texts(call.tags, join(place, 'tags'), policyLimits.values) }),
        ...(call.at === undefined ? {} : { at: readTime(reader, call.at, join(place, 'at')) ?? 0 }),
      }
    })
  }
  return { match: listed('match'), no_match: listed('no_match') }
}

/** Reads labels: a map of tools, the name of a pack, or a list of both, of which later ones win. */
export function readLabels(value: unknown): { labels: ReadonlyMap<string, ToolLabels>; faults: PolicyFault[] } {
  const reader = new Reader()
  return { labels: readLabelsWith(reader, value, ''), faults: reader.faults }
}

function readLabelsWith(reader: Reader, value: unknown, path: string): ReadonlyMap<string, ToolLabels> {
  const labels = new Map<string, ToolLabels>()
  for (const part of value === undefined ? [] : Array.isArray(value) ? value : [value]) {
    const pack = typeof part === 'string' ? packs[part] : undefined
    if (typeof part === 'string' && !pack) {
      reader.fault(path, `has no pack ${part}; the packs are ${Object.keys(packs).join(', ')}.`)
      continue
    }
    if (!isFields(pack ?? part)) {
      reader.fault(path, 'must be a map of tools, the name of a pack, or a list of these.')
      continue
    }
    for (const [tool, one] of Object.entries(pack ?? part)) {
      labels.set(tool.toLowerCase(), readToolLabels(reader, one, join(path, tool)))
    }
  }
  if (labels.size > policyLimits.labels) reader.fault(path, `must name at most ${policyLimits.labels} tools.`)
  return labels
}

function readToolLabels(reader: Reader, value: unknown, path: string): ToolLabels {
  const fields = reader.fields(value, path, ['is', 'destination', 'when'])
  const named = (list: unknown, place: string): Label[] =>
    (Array.isArray(list) ? list : [list]).map((label, at) => reader.choice(label, `${place}[${at}]`, labelNames))
  const when =
    fields.when === undefined
      ? {}
      : isFields(fields.when)
        ? fields.when
        : (reader.fault(join(path, 'when'), 'must be a map of arguments.') ?? {})
  return {
    is: fields.is === undefined ? [] : named(fields.is, join(path, 'is')),
    destination: reader.texts(
      Array.isArray(fields.destination) && fields.destination.length === 0 ? undefined : fields.destination,
      join(path, 'destination'),
      policyLimits.conditions,
    ),
    when: Object.fromEntries(
      Object.entries(when).map(([name, list]) => [name, named(list, join(path, `when.${name}`))]),
    ),
  }
}
