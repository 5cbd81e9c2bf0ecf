import type { PolicyMode } from '@wardline/contract'
import type { ListedPolicy } from '../data/policies.ts'

export const modeNames: Record<PolicyMode, string> = { observe: 'Observe', enforce: 'Enforce' }

export const modeSentences: Record<PolicyMode, string> = {
  observe: 'Records what the policy would have said. Every call goes on.',
  enforce: 'Decides before each call: allow, ask a person, or deny.',
}

export const flowSentences: Record<ListedPolicy['flow'], string> = {
  off: 'no flow rule',
  default: 'flow: after untrusted text, sending and what cannot be undone is asked',
  strict: 'flow: after untrusted text, every effect is asked',
}

/** Which agents a policy is for. */
export function audienceText({ agents, tags }: ListedPolicy['for']): string {
  const parts = [agents.length > 0 && `ids ${agents.join(', ')}`, tags.length > 0 && `tags ${tags.join(', ')}`].filter(
    Boolean,
  )
  return parts.length === 0 ? 'all agents' : parts.join('; ')
}

/**
 * Returns the mode in a policy's text, to which storing it would switch the policy. This is a pattern, not a parser: a
 * nested field named mode also matches, which only causes an unnecessary confirmation.
 */
export const modeOfText = (text: string): PolicyMode | undefined =>
  /(?:^|[{,])[ \t]*["']?mode["']?[ \t]*:\s*["']?(observe|enforce)\b/m.exec(text)?.[1] as PolicyMode | undefined

/** Template for a new policy. Its cases hold. */
export const templateText = `title: Production agents
mode: observe
# Only tags of operators count. Default: every agent.
# for: { tags: [env:prod] }
rules:
  - title: Volumes are never deleted
    decision: deny
    match: { tool: [volume_delete, 'Bash(rm -rf *)'] }
    cases:
      match: [{ tool: volume_delete, args: { id: v1 } }]
      no_match: [{ tool: volume_list, args: {} }]
  - title: Mail outside the company
    decision: ask
    match: { tool: send_email }
    when: { 'recipients|not_host': [example.com] }
    cases:
      match: [{ tool: send_email, args: { recipients: [eve@evil.example] } }]
      no_match: [{ tool: send_email, args: { recipients: [bob@example.com] } }]
# After untrusted text, what sends out or cannot be undone is asked.
flow: default
labels:
  send_email: { is: [sends, changes, irreversible], destination: [recipients, cc, bcc] }
  read_inbox: { is: [untrusted, private] }
  search_contacts: { is: [private, directory] }
`
