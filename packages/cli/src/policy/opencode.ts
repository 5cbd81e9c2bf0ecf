import { type Decision, type Imported, rulesOf, strictness } from './imported.ts'

/** Tools of OpenCode that another permission covers as well. */
const families: Record<string, readonly string[]> = { edit: ['edit', 'write', 'multiedit', 'patch', 'apply_patch'] }
const ownTools = ['bash', 'edit', 'glob', 'grep', 'list', 'lsp', 'question', 'read', 'skill', 'task']
const further = ['todoread', 'todowrite', 'webfetch', 'websearch']
/** Permissions that are about no tool. */
const states = ['external_directory', 'doom_loop']
/** Tools whose patterns are compared with a command or a path, as in a policy. */
const withPatterns = /^(?:bash|edit|read|glob|grep|list)$/

const isDecision = (value: unknown): value is Decision => value === 'allow' || value === 'ask' || value === 'deny'

interface Permission {
  tool: string
  /** For what no pattern matches. */
  base: Decision
  patterns: [pattern: string, decision: Decision][]
}

/**
 * Converts the permissions of OpenCode's settings to a policy. There the last pattern that matches decides, here the
 * strictest rule. Undefined: there are no permissions.
 */
export function importOpenCode(settings: unknown): Imported | undefined {
  const { permission } = (settings ?? {}) as { permission?: unknown }
  const given = isDecision(permission) ? { '*': permission } : permission
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return undefined
  const notes: string[] = []
  const { '*': all, ...tools } = given as Record<string, unknown>
  const everything = isDecision(all) ? all : undefined
  const permissions = Object.entries(tools).flatMap(
    ([tool, value]) => permissionOf(tool, value, everything ?? 'allow', notes) ?? [],
  )
  const missing = everything ?? defaultOf(permissions)
  const found: Record<Decision, string[]> = { allow: [], ask: [], deny: [] }
  for (const one of permissions) convert(one, missing, found, notes)
  if (everything === undefined && missing !== 'allow') {
    const named = new Set(permissions.map(({ tool }) => tool))
    for (const tool of [...ownTools, ...further]) if (!named.has(tool)) found.allow.push(...namesOf(tool))
    notes.push(
      `default ${missing}: it also applies to tools of MCP servers, which OpenCode allows without a permission`,
    )
  }
  const document = { title: 'Permissions of OpenCode', mode: 'observe', default: missing, rules: rulesOf(found) }
  return { document, notes: [...new Set(notes)] }
}

const namesOf = (tool: string): readonly string[] => families[tool] ?? [tool]

function permissionOf(tool: string, value: unknown, otherwise: Decision, notes: string[]): Permission | undefined {
  if (states.includes(tool)) {
    notes.push(`${tool} is left out: it is about no tool`)
    return undefined
  }
  if (isDecision(value)) return { tool, base: value, patterns: [] }
  if (typeof value !== 'object' || value === null) {
    notes.push(`${tool} is left out: ${JSON.stringify(value)} is neither allow, ask, deny nor a map of patterns`)
    return undefined
  }
  const entries = Object.entries(value).filter((entry): entry is [string, Decision] => {
    if (isDecision(entry[1])) return true
    notes.push(`${tool} ${JSON.stringify(entry[0])} is left out: ${JSON.stringify(entry[1])} is no decision`)
    return false
  })
  const base = entries.findLast(([pattern]) => pattern === '*')?.[1] ?? otherwise
  return { tool, base, patterns: entries.filter(([pattern]) => pattern !== '*') }
}

/** What a pattern allows beside a stricter base can only be said if the base is the default of the policy. */
function defaultOf(permissions: readonly Permission[]): Decision {
  const bases = permissions
    .filter(({ base, patterns }) => patterns.some(([, decision]) => strictness(decision) < strictness(base)))
    .map(({ base }) => base)
  return bases.reduce<Decision>((one, other) => (strictness(other) > strictness(one) ? other : one), 'allow')
}

function convert(
  { tool, base, patterns }: Permission,
  missing: Decision,
  found: Record<Decision, string[]>,
  notes: string[],
): void {
  const names = namesOf(tool)
  if (base !== missing) found[base].push(...names)
  for (const [at, [pattern, decision]] of patterns.entries()) {
    const place = `${tool} ${JSON.stringify(pattern)}`
    if (!withPatterns.test(tool)) {
      notes.push(`${place} is left out: what ${tool} acts on is neither a command nor a path`)
      continue
    }
    if (strictness(decision) < strictness(base) && base !== missing) {
      notes.push(`${place} is left out: ${decision} beside the stricter ${base}, and the strictest rule decides`)
      continue
    }
    const stricter = patterns
      .slice(0, at)
      .find(
        ([other, earlier]) => strictness(earlier) > strictness(decision) && pattern.startsWith(other.split('*')[0]!),
      )
    if (stricter) notes.push(`${place} does not undo ${JSON.stringify(stricter[0])}: the strictest rule decides`)
    found[decision].push(...names.map((name) => `${name}(${pattern})`))
  }
}
