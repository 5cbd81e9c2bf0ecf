import type { RuleCorrelation, RuleDocument } from '@wardline/contract'
import type { SourceDocument } from './document.ts'
import type { RuleFault } from './fault.ts'

/** Whether events of several instances may count together. */
function isShared({ type, 'group-by': groupBy = [], rules = [] }: RuleCorrelation): boolean {
  // A new value is that of a single event.
  const isOwn = type === 'new_value' || groupBy.includes('instance_id')
  return !isOwn || rules.some((rule) => typeof rule !== 'string' && isShared(rule.correlation))
}

const sharedSentence =
  'acts only where all events of a firing are of one instance, and this correlation counts those of several together: add instance_id to each group-by, or expect firings on which nobody acts.'

/** Returns what is valid in a rule, but hardly meant. */
export function ruleNotes({ correlation, response = [] }: RuleDocument, source: SourceDocument): RuleFault[] {
  if (correlation === undefined || !isShared(correlation)) return []
  return response.flatMap(({ action }, index) =>
    action === 'suspend' || action === 'call'
      ? [source.fault(['response', index], `The action ${action} ${sharedSentence}`)]
      : [],
  )
}
