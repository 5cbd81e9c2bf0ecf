import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { type Check, fail, ok, skip, warn } from './check.ts'
import { askService, type HookAnswer, runHook, type StatusAnswer, statusCommand } from './hook-run.ts'

/** Settings file of a coding agent, and the input of its hooks before a tool runs. */
interface CodingAgent {
  name: string
  /** Path below the home folder. */
  settings: string
  /** Reads the settings; default: as JSON. */
  parse?: (text: string) => unknown
  /** Names of the events before a tool. */
  events: readonly string[]
  /** Events of prompts and of results, from which a policy knows what a session has read. */
  memory: { prompt: string; result: string }
  /** Builds the hook's standard input, for a command that does nothing. */
  probe: (event: string, command?: string) => Record<string, unknown>
  /** Whether the settings make a failing hook block the call. */
  failsClosed?: (hook: FoundHook['entry']) => boolean
}

const shellProbe = (event: string, command = 'true') => ({
  session_id: 'wardline-doctor',
  cwd: homedir(),
  hook_event_name: event,
  tool_name: 'Bash',
  tool_use_id: 'wardline-doctor',
  tool_input: { command },
})

const hooksInPlugin = (text: string) => ({ hooks: JSON.parse(/^const hooks = (.*)$/m.exec(text)?.[1] ?? '{}') })

export const codingAgents: readonly CodingAgent[] = [
  {
    name: 'Claude Code',
    settings: '.claude/settings.json',
    events: ['PreToolUse'],
    memory: { prompt: 'UserPromptSubmit', result: 'PostToolUse' },
    probe: shellProbe,
    failsClosed: ({ onFailure }) => onFailure === 'block',
  },
  {
    name: 'Codex',
    settings: '.codex/hooks.json',
    events: ['PreToolUse'],
    memory: { prompt: 'UserPromptSubmit', result: 'PostToolUse' },
    probe: (event, command) => ({ ...shellProbe(event, command), turn_id: 'wardline-doctor' }),
  },
  {
    name: 'Cursor',
    settings: '.cursor/hooks.json',
    events: ['preToolUse', 'beforeShellExecution'],
    memory: { prompt: 'beforeSubmitPrompt', result: 'postToolUse' },
    probe: (event, command = 'true') => ({
      ...shellProbe(event, command),
      conversation_id: 'wardline-doctor',
      cursor_version: '0',
      tool_name: 'Shell',
      command,
    }),
  },
  {
    name: 'Gemini CLI',
    settings: '.gemini/settings.json',
    events: ['BeforeTool'],
    memory: { prompt: 'BeforeAgent', result: 'AfterTool' },
    probe: (event, command) => ({ ...shellProbe(event, command), tool_name: 'run_shell_command' }),
  },
  {
    name: 'Copilot CLI',
    settings: '.copilot/hooks/wardline.json',
    events: ['PreToolUse'],
    memory: { prompt: 'UserPromptSubmit', result: 'PostToolUse' },
    probe: (event, command) => ({ ...shellProbe(event, command), timestamp: new Date().toISOString() }),
  },
  {
    name: 'OpenCode',
    settings: '.config/opencode/plugins/wardline.js',
    parse: hooksInPlugin,
    events: ['tool.execute.before'],
    memory: { prompt: 'chat.message', result: 'tool.execute.after' },
    probe: (_event, command) => shellProbe('PreToolUse', command),
  },
  {
    name: 'OpenClaw',
    settings: '.openclaw/wardline.js',
    parse: hooksInPlugin,
    events: ['before_tool_call'],
    memory: { prompt: 'message_received', result: 'after_tool_call' },
    probe: (_event, command) => ({ ...shellProbe('PreToolUse', command), tool_name: 'exec' }),
  },
]

interface FoundHook {
  event: string
  command: string
  entry: Record<string, unknown>
}

/** Whether the command runs Wardline's hook. */
export const isOurs = (command: unknown): command is string =>
  typeof command === 'string' && /\bwardline-agent\b.*\bhook\b/.test(command)

function entriesOf(value: unknown): Record<string, unknown>[] {
  if (typeof value !== 'object' || value === null) return []
  if (Array.isArray(value)) return value.flatMap(entriesOf)
  const entry = value as Record<string, unknown>
  return 'command' in entry ? [entry] : entriesOf(entry.hooks)
}

/** Finds Wardline's hooks in the settings of a coding agent. */
export function findHooks(settings: unknown, events: readonly string[]): FoundHook[] {
  const { hooks } = (settings ?? {}) as { hooks?: Record<string, unknown> }
  return events.flatMap((event) =>
    entriesOf(hooks?.[event]).flatMap((entry) =>
      isOurs(entry.command) ? [{ event, command: entry.command, entry }] : [],
    ),
  )
}

/** Whether the answer denies the call, in the form of any coding agent. */
export function isDenied({ exitCode, stdout }: HookAnswer): boolean {
  // For all of them, exit code 2 is a denial without output.
  if (exitCode === 2) return true
  if (exitCode !== 0) return false
  try {
    const answer = JSON.parse(stdout)
    return (
      answer?.hookSpecificOutput?.permissionDecision === 'deny' ||
      answer?.permission === 'deny' ||
      answer?.decision === 'block' ||
      answer?.continue === false
    )
  } catch {
    return false
  }
}

const toolOf = ({ name }: CodingAgent) => name.toLowerCase().replaceAll(' ', '-')
export const installLine = (agent: CodingAgent) => `wardline-agent install ${toolOf(agent)}`
export const reinstall = (agent: CodingAgent) => `Reinstall it: ${installLine(agent)}`

function judge(agent: CodingAgent, { entry }: FoundHook, answer: HookAnswer): Check {
  const name = `hook of ${agent.name}`
  if (answer.timedOut) return fail(name, 'The hook did not answer within 10 s.', reinstall(agent))
  if (!isDenied(answer)) {
    const how =
      answer.exitCode === 0 ? 'let the call through' : `ended with code ${answer.exitCode}, which lets the call through`
    return fail(name, `While its instance was suspended, the hook ${how}.`, reinstall(agent))
  }
  if (answer.asked === 0) {
    return warn(
      name,
      'The hook blocks without asking the service: it may block every call.',
      'Make a harmless call in the coding agent, and read the message of its hook.',
    )
  }
  if (agent.failsClosed && !agent.failsClosed(entry)) {
    return warn(
      name,
      'The hook blocks, but if the hook itself fails, the call goes through.',
      `Add "onFailure": "block" to its entry. ${reinstall(agent)}`,
    )
  }
  return ok(name, `The hook blocked a call of a suspended instance after ${answer.ms} ms.`)
}

/** Interprets the output of `wardline-agent status` about the real service and key. */
function judgeStatus(agent: CodingAgent, { exitCode, stdout, stderr }: StatusAnswer): Check {
  const name = `key of ${agent.name}`
  const instance = /^instance +(\S+)$/m.exec(stdout)?.[1]
  if (exitCode === 0 && instance) return ok(name, `The service accepts the key of the hook for ${instance}.`)
  if (exitCode === 3 && instance)
    return warn(name, `${instance} is suspended: the hook blocks every call.`, `wardline resume ${instance}`)
  const [said = ''] = stderr.split('\n')
  const detail = said.replace(/^wardline-agent: /, '') || `wardline-agent status ended with code ${exitCode}.`
  return fail(name, detail, `Correct it, then run: wardline-agent status ${toolOf(agent)}`)
}

/** Checks the real key with the real service, because the hook itself was run against a fake service. */
async function checkRealKey(agent: CodingAgent, { command }: FoundHook): Promise<Check> {
  const status = statusCommand(command, toolOf(agent))
  if (status !== undefined) return judgeStatus(agent, await askService(status))
  return warn(
    `key of ${agent.name}`,
    'The hook is not registered as `wardline-agent install` registers it, so its key was not checked.',
    reinstall(agent),
  )
}

/** Windows has no O_NONBLOCK. */
const { O_RDONLY, O_NONBLOCK = 0 } = constants
/** Settings are a few kilobytes; parsing this much takes about 50 ms. */
const maxSettingsBytes = 4 * 1024 * 1024

/** Content of a settings file, or why it is not known; undefined without a file. */
type ReadSettings = { content: unknown } | { problem: string } | undefined

/** Reads JSON from a regular file, also by a link. What cannot be read is not the same as what does not exist. */
export function readSettings(file: string, parse: (text: string) => unknown = JSON.parse): ReadSettings {
  let text: string
  try {
    // Opening a FIFO would wait for a writer, and a device never ends.
    const descriptor = openSync(file, O_RDONLY | O_NONBLOCK)
    try {
      const found = fstatSync(descriptor)
      if (!found.isFile()) return { problem: `${file} is not a regular file.` }
      if (found.size > maxSettingsBytes) return { problem: `${file} is longer than 4 MiB.` }
      text = readFileSync(descriptor, 'utf8')
    } finally {
      closeSync(descriptor)
    }
  } catch (fault) {
    const { code } = fault as NodeJS.ErrnoException
    return code === 'ENOENT' ? undefined : { problem: `${file} cannot be read (${code}).` }
  }
  try {
    return { content: parse(text) }
  } catch {
    return { problem: `${file} is not valid JSON.` }
  }
}

/** A coding agent with settings, and the hooks of ours in them. */
export interface FoundAgent {
  agent: CodingAgent
  settings: unknown
  file: string
  hooks: readonly FoundHook[]
}

/**
 * Finds the coding agents of a user. Reads only the user's settings: those of a folder may come from an attacker, and
 * their commands would be run.
 */
export function installedAgents(home = homedir()): (FoundAgent | { fault: Check })[] {
  return codingAgents.flatMap((agent): (FoundAgent | { fault: Check })[] => {
    const file = join(home, agent.settings)
    const read = readSettings(file, agent.parse)
    if (read === undefined) return []
    if ('problem' in read) return [{ fault: fail(`hook of ${agent.name}`, read.problem, 'Correct the file.') }]
    const { content: settings } = read
    return [{ agent, settings, file, hooks: findHooks(settings, agent.events) }]
  })
}

/**
 * Runs every installed hook with a call that does nothing, against a fake service that reports a suspension, then checks
 * its key with the real service.
 */
export async function checkHooks(home?: string): Promise<Check[]> {
  const checks: Check[] = []
  for (const found of installedAgents(home)) {
    if ('fault' in found) {
      checks.push(found.fault)
      continue
    }
    const { agent, file, hooks } = found
    if (hooks.length === 0) {
      checks.push(fail(`hook of ${agent.name}`, `${file} has no Wardline hook.`, `Install it: ${installLine(agent)}`))
    }
    for (const hook of hooks) checks.push(judge(agent, hook, await runHook(hook.command, agent.probe(hook.event))))
    const [first] = hooks
    if (first) checks.push(await checkRealKey(agent, first))
  }
  return checks.length > 0 ? checks : [skip('hooks', 'No settings of a coding agent exist in your home folder.')]
}
