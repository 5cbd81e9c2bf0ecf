import { type RuleCorrelation, type RuleDocument, ruleLimits } from '@wardline/contract'
import { namesIn, parseCondition } from './condition.ts'
import type { RuleFault } from './fault.ts'
import { anyLists } from './placeholders.ts'
import { parseRules } from './rule.ts'
import { ruleText } from './rule-yaml.ts'
import { ownTypes } from './sigma-read.ts'

interface Exported {
  text: string
  notes: string[]
  faults: RuleFault[]
}

const levels = { info: 'informational', warning: 'medium', critical: 'high', breach: 'critical' } as const

/** Returns the name of a rule within a file: letters, digits and _. */
const nameOf = (title: string): string =>
  title
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^_|_$/g, '')
    .slice(0, 60) || 'rule'

type SigmaDocument = Record<string, unknown>

/** Returns the Sigma documents of one rule, the outermost first. */
function documentsOf({ title, id, description, severity, detection, correlation }: RuleDocument): SigmaDocument[] {
  const { condition, ...selections } = detection
  const head = { title, ...(id && { id }), ...(description && { description }) }
  const level = levels[severity]
  const logsource = { product: 'wardline' }
  if (!correlation) return [{ ...head, logsource, detection: { ...selections, condition }, level }]
  const name = nameOf(title)
  const parts: SigmaDocument[] = []
  const base = (text: string): string => {
    const isFree = Object.hasOwn(selections, text) && !parts.some((part) => part.name === text)
    const own = isFree ? text : `${name}_${parts.length + 1}`
    const parsed = parseCondition(text, Object.keys(selections))
    const used = 'condition' in parsed ? new Set(namesIn(parsed.condition)) : new Set()
    // A Sigma rule only contains the selections that its condition names.
    const ofOwn = Object.fromEntries(Object.entries(selections).filter(([each]) => used.has(each)))
    parts.push({
      title: `Part of a correlation: ${own}`,
      name: own,
      logsource,
      detection: { ...ofOwn, condition: text },
      level,
    })
    return own
  }
  const ruleOf = (rule: string | { correlation: RuleCorrelation }): string => {
    if (typeof rule === 'string') return base(condition === undefined ? rule : `(${condition}) and (${rule})`)
    const body = sigmaCorrelation(rule.correlation)
    const own = `${name}_${parts.length + 1}`
    parts.push({ title: `Part of a correlation: ${own}`, name: own, correlation: body })
    return own
  }
  const sigmaCorrelation = ({
    type,
    rules,
    timespan,
    condition: limits,
    field,
    ...rest
  }: RuleCorrelation): SigmaDocument => {
    const counted = field ?? limits?.field
    const merged = { ...(counted === undefined ? {} : { field: counted }), ...limits }
    const { 'group-by': groupBy, aliases } = rest
    const names = rules?.map(ruleOf) ?? [base(condition!)]
    const ofNames = (fields: Record<string, string>) =>
      Object.fromEntries(names.map((name, index) => [name, fields[String(rules![index])]]))
    return {
      type,
      rules: names,
      ...(groupBy && { 'group-by': groupBy }),
      ...(aliases && {
        aliases: Object.fromEntries(Object.entries(aliases).map(([name, fields]) => [name, ofNames(fields)])),
      }),
      timespan,
      ...(Object.keys(merged).length > 0 && { condition: merged }),
    }
  }
  const body = sigmaCorrelation(correlation)
  return [{ ...head, correlation: body, level }, ...parts]
}

/** Returns a type of the correlation, or of one within it, that Sigma does not know. */
const ownType = ({ type, rules = [] }: RuleCorrelation): string | undefined =>
  ownTypes.includes(type)
    ? type
    : rules.flatMap((rule) => (typeof rule === 'string' ? [] : (ownType(rule.correlation) ?? [])))[0]

/** Parts that Sigma has no field for. */
const ownParts = ['response', 'cooldown', 'exceptions', 'tests', 'timezone'] as const
const ownModifiers = ['host', 'domain', 'weekday']

/** Converts rules to Sigma rules and correlations; adds faults for what Sigma cannot express. */
export function exportSigma(text: string): Exported {
  const { rules, faults } = parseRules(text, ruleLimits.documents, anyLists)
  const notes: string[] = []
  const refused: RuleFault[] = []
  const documents = rules.flatMap(({ rule: { document, lists }, source }) => {
    const type = document.correlation && ownType(document.correlation)
    if (type !== undefined) {
      refused.push(source.fault(['correlation', 'type'], `Sigma has no correlation of type ${type}.`))
      return []
    }
    const own = Object.values(document.detection)
      .flat()
      .flatMap((map) => (typeof map === 'object' && map !== null ? Object.keys(map) : []))
      .flatMap((key) => key.split('|').slice(1))
      .find((modifier) => ownModifiers.includes(modifier))
    if (own !== undefined) {
      refused.push(source.fault(['detection'], `Sigma has no modifier ${own}.`))
      return []
    }
    const lost = ownParts.filter((part) => document[part] !== undefined)
    if (lost.length > 0) notes.push(`${document.title}: Sigma does not support ${lost.join(', ')}: left out.`)
    if (lists.size > 0) notes.push(`${document.title}: needs the lists ${[...lists.keys()].join(', ')}.`)
    return documentsOf(document)
  })
  const all = [...faults, ...refused]
  const output = documents.map(ruleText).join('---\n')
  return { text: all.length === 0 ? output : '', notes, faults: all }
}
