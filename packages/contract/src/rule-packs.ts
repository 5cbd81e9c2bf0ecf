import type { RuleMode } from './rules.ts'

/** What the packs of the starter rules are for, by name, in the order in which they are shown. */
const purposes = new Map([
  ['all-agents', 'every agent'],
  ['coding-agents', 'agents that write code and run commands'],
  ['assistants', 'agents that send mail, pay and tidy up'],
  ['data-agents', 'agents with databases and many files'],
  ['tool-servers', 'MCP servers and who uses them'],
  ['hunting', 'what is new or unusual: to look at, not to be alerted by'],
])

/** Begins the tag that puts a rule into a pack. */
export const packPrefix = 'pack.'

interface PackedRule {
  tags: readonly string[]
  mode: RuleMode
  firings_7d: number
}

/** The rules with one tag `pack.<name>`. */
export interface RulePack<Rule> {
  name: string
  /** What it is for; undefined for a pack of the operator. */
  purpose: string | undefined
  rules: Rule[]
  modes: Record<RuleMode, number>
  firings_7d: number
}

/** Groups listed rules by their packs: those of the starter rules first, then others by name. A rule may be in several. */
export function packsOf<Rule extends PackedRule>(rules: readonly Rule[]): RulePack<Rule>[] {
  const found = new Map<string, Rule[]>([...purposes.keys()].map((name) => [name, []]))
  const names = new Set(rules.flatMap(({ tags }) => tags.filter((tag) => tag.startsWith(packPrefix))))
  for (const tag of [...names].toSorted()) {
    found.set(
      tag.slice(packPrefix.length),
      rules.filter(({ tags }) => tags.includes(tag)),
    )
  }
  return [...found]
    .filter(([, members]) => members.length > 0)
    .map(([name, members]) => {
      const modes = { observe: 0, alert: 0, enforce: 0 }
      for (const { mode } of members) modes[mode] += 1
      const firings_7d = members.reduce((sum, rule) => sum + rule.firings_7d, 0)
      return { name, purpose: purposes.get(name), rules: members, modes, firings_7d }
    })
}
