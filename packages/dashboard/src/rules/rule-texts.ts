import type { RuleDocument, RuleMode } from '@wardline/contract'
import { counted } from '@wardline/text/counted'

export const modeNames: Record<RuleMode, string> = { observe: 'Observe', alert: 'Alert', enforce: 'Enforce' }

export const modeSentences: Record<RuleMode, string> = {
  observe: 'Records firings. No alerts, no responses.',
  alert: "Records firings and creates alerts with the rule's severity. No responses.",
  enforce: "Records firings, creates alerts and runs the rule's responses.",
}

/** Global class of each mode. */
export const modeColours: Record<RuleMode, string> = { observe: 'quiet', alert: 'warning', enforce: 'breach' }

type Response = NonNullable<RuleDocument['response']>[number]

const forText = (time: string | undefined) => (time === undefined ? 'until resumed by a person' : `for ${time}`)

function sentenceOfResponse({ action, for: time, channel, tag, point }: Response): string {
  switch (action) {
    case 'alert':
      return `sends an alert to ${channel === undefined ? 'all channels' : `the channel ${channel}`}`
    case 'suspend':
      return `suspends the agent ${forText(time)}`
    case 'suspend_tag':
      return `suspends every agent with the tag ${tag} ${forText(time)}`
    case 'call':
      return `calls the enforcement point ${point}`
  }
}

/** Describes what each firing does in mode enforce. Several suspensions are shown as escalating steps. */
export function responseSentences({ response = [] }: Pick<RuleDocument, 'response'>): string[] {
  const alerts = response.some(({ action }) => action === 'alert') ? [] : ['sends an alert to all channels']
  const suspensions = response.filter(({ action }) => action === 'suspend' || action === 'suspend_tag')
  return [
    ...alerts,
    ...response.map((each) => {
      const step = suspensions.length > 1 ? suspensions.indexOf(each) : -1
      const text = sentenceOfResponse(each)
      return step < 0 ? text : `${text} (step ${step + 1} of ${suspensions.length} within a day)`
    }),
  ]
}

export function testsText({ tests }: Pick<RuleDocument, 'tests'>): string {
  if (!tests) return 'no tests'
  return `${counted(tests.match.length, 'case')} must match, ${tests.no_match.length} must not`
}

/**
 * Returns the mode in a rule's text, to which storing it would switch the rule. This is a pattern, not a parser: a
 * field named mode in a selection also matches, which only causes an unnecessary confirmation.
 */
export const modeOfText = (text: string): RuleMode | undefined =>
  /(?:^|[{,])[ \t]*["']?mode["']?[ \t]*:\s*["']?(observe|alert|enforce)\b/m.exec(text)?.[1] as RuleMode | undefined

/** Template for a new rule. Its tests pass. */
export const templateText = `title: Reads of a credentials file
description: An agent reads a file that looks like a credential, three times within five minutes.
severity: warning
detection:
  read:
    event_type: tool_call
    metadata.paths|contains: [.env, id_rsa, credentials]
  condition: read
correlation:
  type: event_count
  group-by: [instance_id]
  timespan: 5m
  condition: { gte: 3 }
response:
  - { action: suspend, for: 15m }
tests:
  match:
    - - { event_type: tool_call, metadata: { action: read, paths: [/app/.env] } }
      - { after: 1m, event_type: tool_call, metadata: { action: read, paths: [/app/.env] } }
      - { after: 1m, event_type: tool_call, metadata: { action: execute, paths: [~/.ssh/id_rsa] } }
  no_match:
    - - { event_type: tool_call, metadata: { action: read, paths: [/app/.env] } }
      - { after: 1m, event_type: tool_call, metadata: { action: read, paths: [/app/README.md] } }
`
