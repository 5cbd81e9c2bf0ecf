import type { CodingTool } from './agent-settings.ts'

// What the settings of a coding agent say of hooks: one entry that runs `wardline-agent hook` before every tool.

type Fields = Record<string, unknown>

/** Settings that are not of the form that the coding agent reads. */
export class UnfitFile extends Error {}

/** Longer than the hook ever takes; what takes longer has failed. */
const timeoutSeconds = 5

interface Place {
  event: string
  entry(command: string): Fields
}

const places: Record<CodingTool, Place> = {
  'claude-code': {
    event: 'PreToolUse',
    entry: (command) => ({
      matcher: '*',
      hooks: [{ type: 'command', command, timeout: timeoutSeconds, onFailure: 'block' }],
    }),
  },
  codex: {
    event: 'PreToolUse',
    entry: (command) => ({ matcher: '*', hooks: [{ type: 'command', command, timeout: timeoutSeconds }] }),
  },
  cursor: {
    event: 'preToolUse',
    entry: (command) => ({ command, timeout: timeoutSeconds, failClosed: true }),
  },
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Whoever looks for the hook knows it by this too, such as `wardline doctor`. */
const isOurs = (entry: unknown): boolean =>
  isFields(entry) && typeof entry.command === 'string' && /\bwardline-agent\b.*\bhook\b/.test(entry.command)

/** Takes our hooks out of entries, which hold a command themselves or a group of them; a group of ours alone goes with it. */
function withoutOurs(entries: readonly unknown[]): unknown[] {
  return entries.flatMap((entry) => {
    if (isOurs(entry)) return []
    if (!isFields(entry) || !Array.isArray(entry.hooks) || !entry.hooks.some(isOurs)) return [entry]
    const hooks = entry.hooks.filter((hook) => !isOurs(hook))
    return hooks.length === 0 ? [] : [{ ...entry, hooks }]
  })
}

const holdsOurs = (entry: unknown): boolean => withoutOurs([entry])[0] !== entry

function entriesOf(hooks: Fields, event: string): unknown[] {
  const entries = hooks[event] ?? []
  if (!Array.isArray(entries)) throw new UnfitFile(`hooks.${event} must be a list.`)
  return entries
}

function hooksOf(settings: unknown): Fields {
  if (!isFields(settings)) throw new UnfitFile('The settings must be an object.')
  const hooks = settings.hooks ?? {}
  if (!isFields(hooks)) throw new UnfitFile('hooks must be an object.')
  return hooks
}

/** The settings with the hook in them, in place of any that was there. Throws UnfitFile. */
export function withHook(settings: unknown, tool: CodingTool, command: string): Fields {
  const hooks = hooksOf(settings)
  const { event, entry } = places[tool]
  const entries = entriesOf(hooks, event)
  const first = entries.findIndex(holdsOurs)
  const others = withoutOurs(entries)
  const place = first < 0 ? others.length : first
  const changed = [...others.slice(0, place), entry(command), ...others.slice(place)]
  // Cursor does not read a file without it.
  const version = tool === 'cursor' && (settings as Fields).version === undefined ? { version: 1 } : {}
  return { ...version, ...(settings as Fields), hooks: { ...hooks, [event]: changed } }
}

/** The settings without any hook of ours, and without the lists that held nothing else. Throws UnfitFile. */
export function withoutHook(settings: unknown): Fields {
  const hooks = hooksOf(settings)
  const kept = Object.entries(hooks).flatMap(([event, entries]): [string, unknown][] => {
    if (!Array.isArray(entries) || !entries.some(holdsOurs)) return [[event, entries]]
    const others = withoutOurs(entries)
    return others.length === 0 ? [] : [[event, others]]
  })
  const { hooks: _, ...rest } = settings as Fields
  const isEmptied = kept.length === 0 && Object.keys(hooks).length > 0
  return 'hooks' in (settings as Fields) && !isEmptied
    ? { ...(settings as Fields), hooks: Object.fromEntries(kept) }
    : rest
}
