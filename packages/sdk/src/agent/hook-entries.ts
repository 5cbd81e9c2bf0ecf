import type { CodingTool } from './agent-settings.ts'
import { withItem, without } from './json-edit.ts'
import { hasPlugin, type PluginTool } from './plugin-text.ts'
import { InvalidFile, parseSettings } from './settings-text.ts'

// Hook entries in the settings of coding agents: `wardline-agent hook` before every tool call and after every prompt, and
// after a tool call where that does not delay the agent.

type Fields = Record<string, unknown>

/** Longer than the hook's own time limit, so a hook that takes longer has failed. */
const timeoutSeconds = 5

interface Registration {
  event: string
  entry(command: string): Fields
}

/** A coding agent with settings in JSON. */
export type JsonTool = Exclude<CodingTool, PluginTool>

const registrations: Record<JsonTool, Registration[]> = {
  'claude-code': [
    {
      event: 'PreToolUse',
      entry: (command) => ({
        matcher: '*',
        hooks: [{ type: 'command', command, timeout: timeoutSeconds, onFailure: 'block' }],
      }),
    },
    // Prompts, results and answers in the background, which only Claude Code offers.
    ...['UserPromptSubmit', 'PostToolUse', 'Stop', 'SubagentStop'].map((event) => ({
      event,
      entry: (command: string) => ({
        ...(event === 'PostToolUse' ? { matcher: '*' } : {}),
        hooks: [{ type: 'command', command, timeout: timeoutSeconds, async: true }],
      }),
    })),
  ],
  codex: [
    {
      event: 'PreToolUse',
      entry: (command) => ({ matcher: '*', hooks: [{ type: 'command', command, timeout: timeoutSeconds }] }),
    },
    {
      event: 'UserPromptSubmit',
      entry: (command) => ({ hooks: [{ type: 'command', command, timeout: timeoutSeconds }] }),
    },
  ],
  cursor: [
    {
      event: 'preToolUse',
      entry: (command) => ({ command, timeout: timeoutSeconds, failClosed: true }),
    },
    // A prompt that was not remembered is asked about later; it must not be refused.
    { event: 'beforeSubmitPrompt', entry: (command) => ({ command, timeout: timeoutSeconds }) },
  ],
  // Its time limits are in milliseconds.
  'gemini-cli': [
    {
      event: 'BeforeTool',
      entry: (command) => ({
        matcher: '*',
        hooks: [{ name: 'wardline', type: 'command', command, timeout: 1_000 * timeoutSeconds }],
      }),
    },
    {
      event: 'BeforeAgent',
      entry: (command) => ({
        hooks: [{ name: 'wardline', type: 'command', command, timeout: 1_000 * timeoutSeconds }],
      }),
    },
  ],
  // Of events with Claude Code's names, the input has the form and the names of tools of Claude Code.
  'copilot-cli': ['PreToolUse', 'UserPromptSubmit'].map((event) => ({
    event,
    entry: (command) => ({ type: 'command', command, timeoutSec: timeoutSeconds }),
  })),
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Whether the entry runs our hook. Other programs, such as `wardline doctor`, detect it the same way. */
export const isHookEntry = (entry: unknown): boolean =>
  isFields(entry) && typeof entry.command === 'string' && /\bwardline-agent\b.*\bhook\b/.test(entry.command)

const registrationsOf = (tool: CodingTool): Registration[] => (hasPlugin(tool) ? [] : registrations[tool])

/** Whether the event is the one before tools for which the hook is installed. */
export const isBeforeTools = (tool: CodingTool, event: string): boolean => registrationsOf(tool)[0]?.event === event

/** Whether an entry is as `withHook` adds it, with this command. */
export const isWholeEntry = (
  tool: CodingTool,
  event: string,
  entry: unknown,
  command: string,
  written: (entry: unknown) => string,
): boolean =>
  registrationsOf(tool).some(
    (registration) => registration.event === event && written(registration.entry(command)) === written(entry),
  )

type Place = readonly [entry: number, ...inGroup: (string | number)[]]

/** Returns the places of our hooks, last one first. An entry contains either a command or a group of them. */
function ownPlaces(entries: readonly unknown[]): Place[] {
  const own = entries.flatMap((entry, index): Place[] => {
    if (isHookEntry(entry)) return [[index]]
    const group = isFields(entry) && Array.isArray(entry.hooks) ? entry.hooks : []
    const inGroup = group.flatMap((hook, place): Place[] => (isHookEntry(hook) ? [[index, 'hooks', place]] : []))
    // Remove a group that contains only our hooks as a whole.
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

/** Sets a member of the object at `path`, replacing an existing one such as null. */
export function withMember(
  text: string,
  path: readonly string[],
  key: string,
  value: unknown,
  index = Infinity,
): string {
  const object = path.reduce((fields, step) => fields[step] as Fields, parseSettings(text) as Fields)
  const rest = Object.hasOwn(object, key) ? without(text, [...path, key]) : text
  return withItem(rest, path, index, value, key)
}

/** Returns the settings with the hook added, replacing earlier ones of ours. Throws InvalidFile. */
export function withHook(text: string, tool: JsonTool, command: string): string {
  return registrations[tool].reduce((next, registration) => withEntry(next, tool, registration, command), text)
}

function withEntry(text: string, tool: JsonTool, { event, entry }: Registration, command: string): string {
  const hooks = hooksOf(text)
  const entries = entriesOf(hooks, event)
  const own = ownPlaces(entries)
  const wanted = entry(command)
  let next = /[^\s\ufeff]/.test(text) ? text : `${text}{}\n`
  // Cursor ignores a file without a version, which Copilot CLI documents as required.
  const settings = parseSettings(next) as Fields
  const isVersioned = tool === 'cursor' || tool === 'copilot-cli'
  if (isVersioned && settings.version === undefined) next = withMember(next, [], 'version', 1, 0)
  if (own.length === 1 && JSON.stringify(entries[own[0]![0]]) === JSON.stringify(wanted)) return next
  if (!isFields(settings.hooks)) next = withMember(next, [], 'hooks', {})
  if (!Array.isArray(hooks[event])) next = withMember(next, ['hooks'], event, [])
  for (const place of own) next = without(next, ['hooks', event, ...place])
  return withItem(next, ['hooks', event], own.at(-1)?.[0] ?? entries.length, wanted)
}

/** Returns the settings without our hooks and without lists that contained nothing else. Throws InvalidFile. */
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
