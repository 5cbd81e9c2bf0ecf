import type { RuleCorrelation, RuleDocument } from '@wardline/contract'
import type { SourceDocument } from './document.ts'
import type { RuleFault } from './fault.ts'

/** Whether events of several instances may count together, or be compared. */
function isShared({ 'group-by': groupBy = [], rules = [] }: RuleCorrelation): boolean {
  return (
    !groupBy.includes('instance_id') || rules.some((rule) => typeof rule !== 'string' && isShared(rule.correlation))
  )
}

const sharedSentence =
  'acts only where all events of a firing are of one instance, and this correlation counts or compares those of several together: add instance_id to each group-by, or its firings have no response.'

/** Returns what is probably a mistake in a valid rule. */
export function ruleNotes({ correlation, response = [] }: RuleDocument, source: SourceDocument): RuleFault[] {
  if (correlation === undefined || !isShared(correlation)) return []
  return response.flatMap(({ action }, index) =>
    action === 'suspend' || action === 'call'
      ? [source.fault(['response', index], `The action ${action} ${sharedSentence}`)]
      : [],
  )
}
