import { matchesGlob } from './glob.ts'
import type { ListedTool } from './guess.ts'
import { matchesRule, readCall } from './judge.ts'
import { type CaseCall, decisions, type Policy, type Rule } from './policy.ts'
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
      ...shadows(rules, rule).map(({ title, decision }) => {
        return {
          path,
          message: `never decides: the rule "${title}" matches the same calls, and its ${decision} is stricter.`,
        }
      }),
    ]
  })
}

function failingCases(rule: Rule, path: string, now: number): PolicyFault[] {
  const check = (call: CaseCall, place: string, isMatch: boolean): PolicyFault[] => {
    const { tool, args, agent, tags = [] } = call
    const truth = matchesRule(
      { ...rule, expiresAt: undefined },
      { tool, ...readCall(args), agent: { ...(agent === undefined ? {} : { id: agent }), tags }, at: call.at ?? now },
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
  return rule.when.flatMap(({ key, name }) => {
    const lacking = known.filter(
      ({ inputSchema }) => inputSchema?.properties && !hasArgument(inputSchema.properties, name),
    )
    // A rule for many tools may speak of an argument that only some have.
    if (name === '*' || lacking.length < known.length) return []
    const [{ name: tool, inputSchema }] = lacking as [ListedTool]
    const names = Object.keys(inputSchema?.properties ?? {})
    const has = names.length === 0 ? 'it has none' : `it has ${names.join(', ')}`
    return [{ path: `${path}.when.${key}`, message: `is no argument of the tool ${tool}: ${has}.` }]
  })
}

const hasArgument = (properties: Readonly<Record<string, unknown>>, name: string): boolean =>
  Object.hasOwn(properties, name) || Object.hasOwn(properties, name.split('.')[0]!)

/** Rules that decide more strictly on every call of a rule, whatever its arguments. */
function shadows(rules: readonly Rule[], rule: Rule): Rule[] {
  return rules.filter(
    (other) =>
      decisions.indexOf(other.decision) > decisions.indexOf(rule.decision) &&
      other.when.length === 0 &&
      other.limit === undefined &&
      other.hours === undefined &&
      other.expiresAt === undefined &&
      other.match.agents.length === 0 &&
      other.match.tags.length === 0 &&
      (other.match.tools.length === 0 ||
        (rule.match.tools.length > 0 &&
          rule.match.tools.every((pattern) =>
            other.match.tools.some((wide) => wide.argument === undefined && matchesGlob(wide.name, pattern.name)),
          ))),
  )
}
