import { atlasTactics, atlasTechniques } from './atlas.ts'

interface TaggedRule {
  tags: readonly string[]
  firings_7d: number
}

/** A technique of MITRE ATLAS with the rules that have its tag. */
export interface CoveredTechnique<Rule> {
  /** Such as AML.T0051.001. */
  id: string
  /** Of a subtechnique with the name of its technique before it. */
  name: string
  rules: Rule[]
  firings_7d: number
}

/** A tactic of MITRE ATLAS with all its techniques. */
export interface CoveredTactic<Rule> {
  id: string
  name: string
  techniques: CoveredTechnique<Rule>[]
}

const tagPrefix = 'atlas.'

/**
 * Shows which rules cover which technique of MITRE ATLAS, by their tags `atlas.<id>`. A technique of several tactics is in
 * each of them. `unknown` are tags of ids that this version of ATLAS does not have.
 */
export function coverageOf<Rule extends TaggedRule>(
  rules: readonly Rule[],
): { tactics: CoveredTactic<Rule>[]; covered: number; total: number; unknown: string[] } {
  const byTag = Map.groupBy(
    rules
      .flatMap((rule) => [...new Set(rule.tags)].map((tag) => ({ tag, rule })))
      .filter(({ tag }) => tag.startsWith(tagPrefix)),
    ({ tag }) => tag,
  )
  const names = new Map(atlasTechniques.map(([number, name]) => [number, name]))
  const techniques = atlasTechniques.map(([number, ownName, tactics]) => {
    const id = `AML.${number}`
    const [parent = ''] = number.split('.')
    const name = parent === number ? ownName : `${names.get(parent)}: ${ownName}`
    const found = (byTag.get(`${tagPrefix}${id.toLowerCase()}`) ?? []).map(({ rule }) => rule)
    const firings_7d = found.reduce((sum, rule) => sum + rule.firings_7d, 0)
    return { tactics: tactics.split(' '), technique: { id, name, rules: found, firings_7d } }
  })
  const known = new Set(techniques.map(({ technique }) => `${tagPrefix}${technique.id.toLowerCase()}`))
  return {
    tactics: atlasTactics.map(([number, name]) => ({
      id: `AML.${number}`,
      name,
      techniques: techniques.filter(({ tactics }) => tactics.includes(number)).map(({ technique }) => technique),
    })),
    covered: techniques.filter(({ technique }) => technique.rules.length > 0).length,
    total: techniques.length,
    unknown: [...byTag.keys()].filter((tag) => !known.has(tag)).toSorted(),
  }
}
