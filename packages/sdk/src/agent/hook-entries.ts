import type { CodingTool } from './agent-settings.ts'
import { withItem, without } from './json-edit.ts'
import { InvalidFile, parseSettings } from './settings-text.ts'

// What the settings of a coding agent say of hooks: one entry that runs `wardline-agent hook` before every tool.

type Fields = Record<string, unknown>

/** Longer than the hook ever takes; what takes longer has failed. */
const timeoutSeconds = 5

interface Registration {
  event: string
  entry(command: string): Fields
}

const registrations: Record<CodingTool, Registration> = {
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

/** Also identifies the hook for others, such as `wardline doctor`. */
const isOurs = (entry: unknown): boolean =>
  isFields(entry) && typeof entry.command === 'string' && /\bwardline-agent\b.*\bhook\b/.test(entry.command)

type Place = readonly [entry: number, ...inGroup: (string | number)[]]

/** Places of our hooks in a list of entries, which hold a command themselves or a group of them; the last one first. */
function ownPlaces(entries: readonly unknown[]): Place[] {
  const own = entries.flatMap((entry, index): Place[] => {
    if (isOurs(entry)) return [[index]]
    const group = isFields(entry) && Array.isArray(entry.hooks) ? entry.hooks : []
    const inGroup = group.flatMap((hook, place): Place[] => (isOurs(hook) ? [[index, 'hooks', place]] : []))
    // A group of ours alone goes with it.
    return inGroup.length === group.length && inGroup.length > 0 ? [[index]] : inGroup
  })
  return own.reverse()
}

function hooksOf(text: string): Fields {
  const settings = parseSettings(text)
  if (!isFields(settings)) throw new InvalidFile('The settings must be an object.')
  const hooks = settings.hooks ?? {}
  if (!isFields(hooks)) throw new InvalidFile('hooks must be an object.')
  return hooks
}

function entriesOf(hooks: Fields, event: string): unknown[] {
  const entries = hooks[event] ?? []
  if (!Array.isArray(entries)) throw new InvalidFile(`hooks.${event} must be a list.`)
  return entries
}

/** Puts a member into the object at `path`, in place of a null. */
function withMember(text: string, path: readonly string[], key: string, value: unknown, index = Infinity): string {
  const object = path.reduce((fields, step) => fields[step] as Fields, parseSettings(text) as Fields)
  const rest = Object.hasOwn(object, key) ? without(text, [...path, key]) : text
  return withItem(rest, path, index, value, key)
}

/** The text of the settings with the hook in it, in place of any that was there. Throws InvalidFile. */
export function withHook(text: string, tool: CodingTool, command: string): string {
  const hooks = hooksOf(text)
  const { event, entry } = registrations[tool]
  const entries = entriesOf(hooks, event)
  const own = ownPlaces(entries)
  const wanted = entry(command)
  let next = /[^\s\ufeff]/.test(text) ? text : `${text}{}\n`
  // Cursor does not read a file without it.
  const settings = parseSettings(next) as Fields
  if (tool === 'cursor' && settings.version === undefined) next = withMember(next, [], 'version', 1, 0)
  if (own.length === 1 && JSON.stringify(entries[own[0]![0]]) === JSON.stringify(wanted)) return next
  if (!isFields(settings.hooks)) next = withMember(next, [], 'hooks', {})
  if (!Array.isArray(hooks[event])) next = withMember(next, ['hooks'], event, [])
  for (const place of own) next = without(next, ['hooks', event, ...place])
  return withItem(next, ['hooks', event], own.at(-1)?.[0] ?? entries.length, wanted)
}

/** The text without our hooks, and without the lists that contained nothing else. Throws InvalidFile. */
export function withoutHook(text: string): string {
  const hooks = hooksOf(text)
  let next = text
  let left = Object.keys(hooks).length
  for (const [event, entries] of Object.entries(hooks)) {
    const own = Array.isArray(entries) ? ownPlaces(entries) : []
    for (const place of own) next = without(next, ['hooks', event, ...place])
    if (own.length > 0 && entriesOf(hooksOf(next), event).length === 0) {
      next = without(next, ['hooks', event])
      left--
    }
  }
  return next !== text && left === 0 ? without(next, ['hooks']) : next
}
