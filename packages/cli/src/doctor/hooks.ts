import { homedir } from 'node:os'
import { isHookEntry } from '@wardline/sdk/coding-agents'
import { type Check, fail, ok, skip, warn } from './check.ts'
import { askService, type HookAnswer, runHook, type StatusAnswer, statusCommand } from './hook-run.ts'
import { type HookedAgent, hookedAgents } from './hooked-agents.ts'

/** How the hooks of a coding agent are called. */
interface HookKind {
  /** Names of the events before a tool. */
  events: readonly string[]
  /** Events of prompts and of results, from which a policy knows what a session has read. */
  memory: { prompt: string; result: string }
  /** Builds the hook's standard input, for a command that does nothing. */
  probe: (event: string, command?: string) => Record<string, unknown>
  /** What the input has as well for a call of a subagent; undefined if the coding agent does not say which call is one. */
  subagent?: Record<string, unknown>
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

const subagentFields = { agent_id: 'wardline-doctor', agent_type: 'general-purpose' }

export const hookKinds: Record<HookedAgent['tool'], HookKind> = {
  'claude-code': {
    events: ['PreToolUse'],
    memory: { prompt: 'UserPromptSubmit', result: 'PostToolUse' },
    probe: shellProbe,
    subagent: subagentFields,
    failsClosed: ({ onFailure }) => onFailure === 'block',
  },
  codex: {
    events: ['PreToolUse'],
    memory: { prompt: 'UserPromptSubmit', result: 'PostToolUse' },
    probe: (event, command) => ({ ...shellProbe(event, command), turn_id: 'wardline-doctor' }),
  },
  cursor: {
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
  'gemini-cli': {
    events: ['BeforeTool'],
    memory: { prompt: 'BeforeAgent', result: 'AfterTool' },
    probe: (event, command) => ({ ...shellProbe(event, command), tool_name: 'run_shell_command' }),
  },
  'copilot-cli': {
    events: ['PreToolUse'],
    memory: { prompt: 'UserPromptSubmit', result: 'PostToolUse' },
    probe: (event, command) => ({ ...shellProbe(event, command), timestamp: new Date().toISOString() }),
    subagent: { ...subagentFields, parent_agent_id: 'wardline-doctor-main' },
  },
  opencode: {
    events: ['tool.execute.before'],
    memory: { prompt: 'chat.message', result: 'tool.execute.after' },
    probe: (_event, command) => shellProbe('PreToolUse', command),
  },
  openclaw: {
    events: ['before_tool_call'],
    memory: { prompt: 'message_received', result: 'after_tool_call' },
    probe: (_event, command) => ({
      ...shellProbe('PreToolUse', command),
      session_key: 'agent:main:main',
      tool_name: 'exec',
    }),
    subagent: { session_key: 'agent:main:subagent:wardline-doctor' },
  },
}

interface FoundHook {
  event: string
  command: string
  entry: Record<string, unknown>
}

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
      isHookEntry(entry) ? [{ event, command: entry.command as string, entry }] : [],
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

export const installLine = ({ tool }: HookedAgent) => `wardline-agent install ${tool}`
export const reinstall = (agent: HookedAgent) => `Reinstall it: ${installLine(agent)}`

function judge(agent: HookedAgent, { entry }: FoundHook, answer: HookAnswer): Check {
  const name = `hook of ${agent.product}`
  const { failsClosed } = hookKinds[agent.tool]
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
  if (failsClosed && !failsClosed(entry)) {
    return warn(
      name,
      'The hook blocks, but if the hook itself fails, the call goes through.',
      `Add "onFailure": "block" to its entry. ${reinstall(agent)}`,
    )
  }
  return ok(name, `The hook blocked a call of a suspended instance after ${answer.ms} ms.`)
}

/** Denies what only subagents call. */
const denySubagents = {
  title: 'Check of the hook',
  mode: 'enforce',
  rules: [{ title: 'Calls of subagents', decision: 'deny', match: { tool: 'Bash', scope: 'subagent' } }],
}

/**
 * Runs the hook with a call as a subagent makes it: of a suspended instance, and with a policy for subagents, which must
 * not deny the same call of the main agent. Whether the coding agent runs hooks in subagents takes a model to see.
 */
async function checkSubagents({ tool, product, ...agent }: FoundAgent, { command, event }: FoundHook): Promise<Check> {
  const name = `subagents of ${product}`
  const { probe, subagent } = hookKinds[tool]
  if (!subagent) return skip(name, `Not tested: ${product} does not say which calls are made by a subagent.`)
  const call = { ...probe(event), ...subagent }
  const fix = `Update the hook. ${reinstall({ tool, product, ...agent })}`
  if (!isDenied(await runHook(command, call))) {
    return fail(name, 'While its instance was suspended, the hook let a call of a subagent through.', fix)
  }
  const policy = { policy: denySubagents }
  if (!isDenied(await runHook(command, call, policy)) || isDenied(await runHook(command, probe(event), policy))) {
    return fail(name, 'The hook does not distinguish calls of subagents: a policy for them is not enforced.', fix)
  }
  return ok(
    name,
    `The hook blocked a call in the form of a subagent's. Not tested: whether ${product} runs hooks in its subagents.`,
  )
}

/** Interprets the output of `wardline-agent status` about the real service and key. */
function judgeStatus(agent: HookedAgent, { exitCode, stdout, stderr }: StatusAnswer): Check {
  const name = `key of ${agent.product}`
  const instance = /^instance +(\S+)$/m.exec(stdout)?.[1]
  if (exitCode === 0 && instance) return ok(name, `The service accepts the key of the hook for ${instance}.`)
  if (exitCode === 3 && instance)
    return warn(name, `${instance} is suspended: the hook blocks every call.`, `wardline resume ${instance}`)
  const [said = ''] = stderr.split('\n')
  const detail = said.replace(/^wardline-agent: /, '') || `wardline-agent status ended with code ${exitCode}.`
  return fail(name, detail, `Correct it, then run: wardline-agent status ${agent.tool}`)
}

/** Checks the real key with the real service, because the hook itself was run against a fake service. */
async function checkRealKey(agent: HookedAgent, { command }: FoundHook): Promise<Check> {
  const status = statusCommand(command, agent.tool)
  if (status !== undefined) return judgeStatus(agent, await askService(status))
  return warn(
    `key of ${agent.product}`,
    'The hook is not registered as `wardline-agent install` registers it, so its key was not checked.',
    reinstall(agent),
  )
}

/** A coding agent with settings, and the hooks of ours in them. */
export interface FoundAgent extends HookedAgent {
  hooks: readonly FoundHook[]
}

/**
 * Finds the coding agents of a user. Reads only the user's settings: those of a folder may come from an attacker, and
 * their commands would be run.
 */
export function installedAgents(
  home = homedir(),
  env: NodeJS.ProcessEnv = process.env,
  managed?: string,
): (FoundAgent | { fault: Check })[] {
  return hookedAgents(env, home, managed).map((agent): FoundAgent | { fault: Check } => {
    const { tool, product, fault, settings } = agent
    if (fault !== undefined) return { fault: fail(`hook of ${product}`, fault, 'Correct the file.') }
    return { ...agent, hooks: findHooks(settings, hookKinds[tool].events) } as FoundAgent
  })
}

/**
 * Runs every installed hook with a call that does nothing, against a fake service that reports a suspension, then checks
 * its key with the real service.
 */
export async function checkHooks(home?: string, env?: NodeJS.ProcessEnv): Promise<Check[]> {
  const checks: Check[] = []
  for (const found of installedAgents(home, env)) {
    if (isFault(found)) {
      checks.push(found.fault)
      continue
    }
    const { tool, product, file, hooks, off } = found
    if (hooks.length === 0) {
      checks.push(fail(`hook of ${product}`, `${file} has no Wardline hook.`, `Install it: ${installLine(found)}`))
    } else if (off !== undefined) {
      checks.push(fail(`hook of ${product}`, `${product} does not run the hook: ${off}.`, 'Correct the setting.'))
    } else {
      for (const hook of hooks) {
        const check = judge(found, hook, await runHook(hook.command, hookKinds[tool].probe(hook.event)))
        checks.push(check)
        if (hook === hooks[0] && check.status !== 'fail') checks.push(await checkSubagents(found, hook))
      }
    }
    const [first] = hooks
    if (first) checks.push(await checkRealKey(found, first))
  }
  return checks.length > 0 ? checks : [skip('hooks', 'No settings of a coding agent exist in your home folder.')]
}

export const isFault = (found: FoundAgent | { fault: Check }): found is { fault: Check } => !('hooks' in found)
