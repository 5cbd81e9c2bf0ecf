import type { Policy } from '@wardline/policy'

export type Decision = Policy['default']

/** A policy made of the settings of a coding agent. */
export interface Imported {
  document: Record<string, unknown>
  /** What the agent says otherwise, or what was left out. */
  notes: string[]
}

export const strictness = (decision: Decision): number => ['allow', 'ask', 'deny'].indexOf(decision)

const titles: Record<Decision, string> = { deny: 'Denied', ask: 'Asked', allow: 'Allowed' }

/** Returns one rule for each decision, the strictest first, without those that have no tool. */
export const rulesOf = (tools: Readonly<Record<Decision, Iterable<string>>>) =>
  (['deny', 'ask', 'allow'] as const).flatMap((decision) => {
    const tool = [...new Set(tools[decision])]
    return tool.length === 0 ? [] : [{ title: titles[decision], decision, match: { tool } }]
  })
