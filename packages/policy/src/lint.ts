import { matchesGlob } from './glob.ts'
import type { ListedTool } from './guess.ts'
import { isStricter, matchesRule, readCall } from './judge.ts'
import type { CaseCall, Policy, Rule } from './policy.ts'
import type { PolicyFault } from './reader.ts'

/**
 * Finds what a policy that can be read gets wrong: cases that do not hold, rules that can never decide, and with the tools
 * of its servers arguments that a tool does not have.
 */
export function lintPolicy({ rules }: Policy, tools: readonly ListedTool[], now: number): PolicyFault[] {
  return rules.flatMap((rule, at) => {
    const path = `rules[${at}]`
    return [
      ...failingCases(rule, path, now),
      ...unknownArguments(rule, path, tools),
      ...(rule.expiresAt !== undefined && rule.expiresAt <= now
        ? [{ path: `${path}.expires_at`, message: 'is over: the rule never takes effect.' }]
        : []),
      ...shadowed(rules, at, path),
    ]
  })
}

function failingCases(rule: Rule, path: string, now: number): PolicyFault[] {
  const check = (call: CaseCall, place: string, isMatch: boolean): PolicyFault[] => {
    const { tool, args, agent, tags = [], scope } = call
    const truth = matchesRule(
      { ...rule, expiresAt: undefined },
      {
        tool,
        ...readCall(args),
        agent: { ...(agent === undefined ? {} : { id: agent }), tags },
        scope,
        at: call.at ?? now,
      },
    )
    if (truth === isMatch) return []
    const how =
      truth === 'unknown' ? 'cannot be evaluated for the rule' : truth ? 'matches the rule' : 'does not match the rule'
    return [{ path: place, message: `is a call that ${how}.` }]
  }
  return [
    ...rule.cases.match.flatMap((call, at) => check(call, `${path}.cases.match[${at}]`, true)),
    ...rule.cases.no_match.flatMap((call, at) => check(call, `${path}.cases.no_match[${at}]`, false)),
  ]
}

/** Tools that a rule means by name. A pattern without a known tool may mean one that is added later. */
const meant = ({ match }: Rule, tools: readonly ListedTool[]): ListedTool[] =>
  tools.filter(({ name }) => match.tools.some((pattern) => matchesGlob(pattern.name, name.toLowerCase())))

function unknownArguments(rule: Rule, path: string, tools: readonly ListedTool[]): PolicyFault[] {
  const known = meant(rule, tools)
  if (known.length === 0) return []
  const spoken = [
    ...rule.when.map(({ key, name }) => ({ name, place: `${path}.when.${key}` })),
    ...(rule.limit?.of === undefined ? [] : [{ name: rule.limit.of, place: `${path}.limit.of` }]),
  ]
  return spoken.flatMap(({ name, place }) => {
    const lacking = known.filter(
      ({ inputSchema }) => inputSchema?.properties && !hasArgument(inputSchema.properties, name),
    )
    // A rule for many tools may speak of an argument that only some have.
    if (name === '*' || lacking.length < known.length) return []
    const [{ name: tool, inputSchema }] = lacking as [ListedTool]
    const names = Object.keys(inputSchema?.properties ?? {})
    const has = names.length === 0 ? 'it has none' : `it has ${names.join(', ')}`
    return [{ path: place, message: `is no argument of the tool ${tool}: ${has}.` }]
  })
}

const hasArgument = (properties: Readonly<Record<string, unknown>>, name: string): boolean =>
  Object.hasOwn(properties, name) || Object.hasOwn(properties, name.split('.')[0]!)

/** Finds rules that decide every call of a rule in its place: stricter ones, and equally strict ones before it. */
function shadowed(rules: readonly Rule[], at: number, path: string): PolicyFault[] {
  const rule = rules[at]!
  const [over] = rules.filter((other, place) => {
    if (other === rule || !covers(other, rule)) return false
    return isStricter(other, rule) || (!isStricter(rule, other) && place < at)
  })
  if (!over) return []
  const { title, decision } = over
  if (!isStricter(over, rule)) {
    return [
      {
        path,
        message: `never decides: the rule "${title}" before it matches the same calls, with the same ${decision}.`,
      },
    ]
  }
  const message = covers(rule, over)
    ? `contradicts the rule "${title}": both match the same calls, with ${rule.decision} and ${decision}.`
    : `never decides: the rule "${title}" matches the same calls, and its ${decision} is stricter.`
  return [{ path, message }]
}

/** Whether a rule takes effect for every call for which another does, as far as their texts say it. */
function covers(wide: Rule, narrow: Rule): boolean {
  const within = (some: readonly string[], others: readonly string[]): boolean =>
    some.length === 0 || (others.length > 0 && others.every((one) => some.includes(one)))
  const conditions = new Set(narrow.when.map(textOf))
  return (
    wide.when.every((condition) => conditions.has(textOf(condition))) &&
    within(wide.match.agents, narrow.match.agents) &&
    within(wide.match.tags, narrow.match.tags) &&
    within(wide.match.scopes, narrow.match.scopes) &&
    (wide.limit === undefined || isSame(wide.limit, narrow.limit)) &&
    (wide.hours === undefined || isSame(wide.hours, narrow.hours)) &&
    (wide.expiresAt ?? Number.POSITIVE_INFINITY) >= (narrow.expiresAt ?? Number.POSITIVE_INFINITY) &&
    coversTools(wide.match.tools, narrow.match.tools)
  )
}

function coversTools(wide: Rule['match']['tools'], narrow: Rule['match']['tools']): boolean {
  if (wide.length === 0) return true
  return (
    narrow.length > 0 &&
    narrow.every(({ name, argument }) =>
      wide.some((one) => matchesGlob(one.name, name) && (!one.argument || isSame(one.argument, argument))),
    )
  )
}

const textOf = ({ key, wanted }: Rule['when'][number]): string => JSON.stringify([key, [...wanted].sort()])
const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)
