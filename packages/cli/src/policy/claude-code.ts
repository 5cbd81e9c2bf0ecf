import type { Policy } from '@wardline/policy'
import { type Decision, type Imported, rulesOf } from './imported.ts'

type Rule = Policy['rules'][number]

/** Tools of Claude Code by their name in lower case, because policies compare names without regard to case. */
const builtIn = new Map(
  [
    ...['Agent', 'AskUserQuestion', 'Bash', 'BashOutput', 'Edit', 'ExitPlanMode', 'Glob', 'Grep', 'KillShell', 'LS'],
    ...['MultiEdit', 'NotebookEdit', 'NotebookRead', 'PowerShell', 'Read', 'Skill', 'SlashCommand', 'Task'],
    ...['TodoRead', 'TodoWrite', 'WebFetch', 'WebSearch', 'Write'],
  ].map((name) => [name.toLowerCase(), name]),
)

/** Tools that Claude Code runs without a rule: they read files of the project, or only speak to the person or itself. */
const free = [
  ...['Read', 'Glob', 'Grep', 'LS', 'NotebookRead', 'TodoRead', 'TodoWrite', 'Task', 'Agent', 'BashOutput'],
  ...['KillShell', 'Skill', 'SlashCommand', 'AskUserQuestion', 'ExitPlanMode'],
]
const editing = ['Edit', 'Write', 'MultiEdit', 'NotebookEdit']

/** Rules for one tool that Claude Code applies to others as well. */
const families: Record<string, readonly string[]> = {
  Edit: editing,
  Read: ['Read', 'Grep', 'Glob', 'LS', 'NotebookRead'],
}

/** Tools whose brackets name a command, a path or a host, as in a policy. */
const withBrackets = /^(?:Bash|PowerShell|Read|Edit|Write|MultiEdit|NotebookEdit|Glob|Grep|LS|WebFetch)$/

type Permissions = { defaultMode?: unknown } & Partial<Record<Decision, unknown>>

/**
 * Converts the permissions of Claude Code's settings to a policy. Both take the strictest rule that matches. Undefined:
 * there are no permissions.
 */
export function importClaudeCode(settings: unknown): Imported | undefined {
  const permissions = (settings as { permissions?: Permissions } | null)?.permissions
  if (typeof permissions !== 'object' || permissions === null) return undefined
  const notes: string[] = []
  const listed = (decision: Decision) => {
    const given = permissions[decision] ?? []
    return (Array.isArray(given) ? given : [given]).flatMap((text) => toolsOf(text, decision, notes))
  }
  const rules = rulesOf({ deny: listed('deny'), ask: listed('ask'), allow: listed('allow') })
  const { missing, allowed } = defaultsOf(permissions.defaultMode, notes)
  const unlisted =
    allowed.length === 0 ? [] : [{ title: 'Without a rule', decision: 'allow', match: { tool: allowed } }]
  const document = {
    title: 'Permissions of Claude Code',
    mode: 'observe',
    default: missing,
    rules: [...rules, ...unlisted],
  }
  return { document, notes: [...new Set(notes)] }
}

/** What Claude Code does with a call that no permission names. */
function defaultsOf(mode: unknown, notes: string[]): { missing: Decision; allowed: string[] } {
  switch (mode) {
    case undefined:
    case 'default':
      return { missing: 'ask', allowed: free }
    case 'acceptEdits':
      return { missing: 'ask', allowed: [...free, ...editing] }
    case 'dontAsk':
      return { missing: 'deny', allowed: free }
    case 'plan':
      return { missing: 'deny', allowed: free }
    case 'bypassPermissions':
      return { missing: 'allow', allowed: [] }
  }
  notes.push(`permissions.defaultMode ${JSON.stringify(mode)} is unknown; taken as default`)
  return { missing: 'ask', allowed: free }
}

function toolsOf(text: unknown, decision: Decision, notes: string[]): string[] {
  const [, name = '', inner] = (typeof text === 'string' && /^([^\s()]+)(?:\((.*)\))?$/s.exec(text.trim())) || []
  const leave = (why: string) => {
    notes.push(`${decision} ${JSON.stringify(text)} is left out: ${why}`)
    return []
  }
  if (name === '') return leave('it is not of the form Tool or Tool(pattern)')
  // All tools of a server.
  if (/^mcp__[^_]+(?:_[^_]+)*$/.test(name) && inner === undefined) return [`${name}__*`]
  if (inner === undefined || inner === '*') return families[name] ? [...families[name]] : [name]
  if (!withBrackets.test(name))
    return leave(`what is in the brackets of ${name} is neither a command, a path nor a host`)
  if (name === 'WebFetch' && !inner.startsWith('domain:')) return leave('WebFetch takes domain:<host>')
  if (name === 'Bash' || name === 'PowerShell' || name === 'WebFetch') return [`${name}(${inner})`]
  return (families[name] ?? [name]).map((each) => `${each}(${pathOf(inner, notes)})`)
}

/** `/src` begins at the project, which a policy does not know: it is compared below any folder. */
function pathOf(inner: string, notes: string[]): string {
  if (inner.startsWith('//') || !inner.startsWith('/')) return inner.replace(/^\.\//, '')
  notes.push(
    `${inner} begins at the project in Claude Code, and matches below any folder here; write //… for an absolute path`,
  )
  return inner.slice(1)
}

interface Exported {
  settings: { permissions: { defaultMode?: string } & Partial<Record<Decision, string[]>> }
  /** What these settings cannot say. */
  notes: string[]
}

/** Converts a policy to permissions of Claude Code, as far as these can say it. */
export function exportClaudeCode(policy: Policy): Exported {
  const notes: string[] = []
  const permissions: Exported['settings']['permissions'] = {}
  const leave = (what: string) => void notes.push(`left out: ${what}`)
  for (const rule of policy.rules) {
    const why = unsaid(rule)
    if (why !== undefined) {
      leave(`rule "${rule.title}": ${why}`)
      continue
    }
    for (const pattern of rule.match.tools) {
      const text = permissionOf(pattern.text)
      if (text === undefined) leave(`rule "${rule.title}": ${pattern.text} is no tool of Claude Code`)
      else permissions[rule.decision] = [...new Set([...(permissions[rule.decision] ?? []), text])]
    }
  }
  if (policy.default === 'deny') permissions.defaultMode = 'dontAsk'
  if (policy.default === 'allow') leave('default allow: Claude Code asks about what changes something and has no rule')
  if (policy.flow !== 'off') leave(`flow ${policy.flow}: what a session has read does not count in permissions`)
  if (policy.for.agents.length > 0 || policy.for.tags.length > 0) leave('for: settings do not select agents')
  if (policy.mode === 'observe') notes.push('the policy is in mode observe, and the permissions decide')
  return { settings: { permissions }, notes }
}

/** Returns what of a rule permissions cannot say; undefined if there is nothing. */
function unsaid({ match, when, limit, hours, expiresAt, approvals }: Rule): string | undefined {
  if (match.tools.length === 0) return 'it is for every tool'
  if (match.agents.length > 0 || match.tags.length > 0) return 'it is for some agents'
  if (when.length > 0) return `conditions on arguments (${when.map(({ key }) => key).join(', ')})`
  if (limit) return 'limit'
  if (hours) return 'hours'
  if (expiresAt !== undefined) return 'expires_at'
  return approvals > 1 ? 'two people have to approve' : undefined
}

/** The permission of a tool that Claude Code has, as it writes its name. */
function permissionOf(text: string): string | undefined {
  const [, given = '', brackets = ''] = /^([^\s()]+)(\(.*\))?$/s.exec(text) ?? []
  // Patterns of names are possible for the tools of MCP servers alone, after the name of the server.
  if (/^mcp__[^*]+__(?:\*|[^*]+)$/.test(given)) return brackets === '' ? given : undefined
  const name = builtIn.get(given.toLowerCase())
  return name === undefined ? undefined : `${name}${brackets}`
}
