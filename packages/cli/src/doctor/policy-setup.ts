import { type Check, fail, ok, skip, warn } from './check.ts'
import { runHook } from './hook-run.ts'
import {
  type FoundAgent,
  findHooks,
  installedAgents,
  installLine,
  isDenied,
  isOurs,
  readSettings,
  reinstall,
} from './hooks.ts'

/** Denies a command that does nothing. */
const denyTrue = {
  title: 'Check of the hook',
  mode: 'enforce',
  rules: [{ title: 'The command true', decision: 'deny', match: { tool: 'Bash(true)' } }],
}
/** The same command as other programs start it: a policy that they escape is none. */
const wrapped = ["env -i sh -c 'true'", 'sudo -n true', 'echo a && true']

/** Settings of Claude Code that administrators roll out: https://code.claude.com/docs/en/settings. */
const managedFiles: Partial<Record<NodeJS.Platform, string>> = {
  linux: '/etc/claude-code/managed-settings.json',
  darwin: '/Library/Application Support/ClaudeCode/managed-settings.json',
  win32: 'C:\\Program Files\\ClaudeCode\\managed-settings.json',
}

/** Whether the hook runs before every tool; for others it is never asked. */
function coversAll(settings: unknown, event: string): boolean {
  const entries = Object(Object(settings).hooks)[event]
  if (!Array.isArray(entries)) return false
  return entries.some((entry) => {
    const { matcher, hooks, command } = Object(entry)
    const own = Array.isArray(hooks) ? hooks.some((hook) => isOurs(Object(hook).command)) : isOurs(command)
    return own && (matcher === undefined || matcher === '' || matcher === '*' || matcher === '.*')
  })
}

/** Runs the hook with a call that a policy denies, and with the same call wrapped in other programs. */
async function checkDecisions({ agent, hooks: [hook] }: FoundAgent): Promise<Check> {
  const name = `policy of ${agent.name}`
  const { command, event } = hook!
  const isDeniedAs = async (line: string) =>
    isDenied(await runHook(command, agent.probe(event, line), { policy: denyTrue }))
  if (!(await isDeniedAs('true'))) {
    return fail(name, 'The hook let a call through that a policy denies.', `Update the hook. ${reinstall(agent)}`)
  }
  // A hook that denies everything would look as if it decided by policies.
  if (await isDeniedAs('pwd')) {
    return fail(name, 'The hook denied a call that no policy denies.', `Update the hook. ${reinstall(agent)}`)
  }
  const escaping: string[] = []
  for (const line of wrapped) if (!(await isDeniedAs(line))) escaping.push(line)
  if (escaping.length > 0) {
    return fail(name, `The hook let through: ${escaping.join('; ')}.`, `Update the hook. ${reinstall(agent)}`)
  }
  return ok(name, 'The hook denied a call by a policy, also wrapped in other commands, and let another one through.')
}

/** Whether the hook hears prompts and results: flows are decided by what a session has read. */
function checkMemory({ agent, settings }: FoundAgent): Check {
  const name = `flows of ${agent.name}`
  const { prompt, result } = agent.memory
  const has = (event: string) => findHooks(settings, [event]).length > 0
  if (!has(result)) {
    return warn(
      name,
      `Results are not reported (${result}), so a directory's answer proves no destination: more calls are asked.`,
      reinstall(agent),
    )
  }
  if (!has(prompt)) {
    return warn(
      name,
      `Prompts are not reported (${prompt}), so what a person named proves no destination: more calls are asked.`,
      reinstall(agent),
    )
  }
  return ok(name, 'The hook hears prompts and results.')
}

/** Settings by which the coding agent does not run the hook, or not for every tool. */
function checkReach({ agent, settings, hooks: [hook] }: FoundAgent, managed: ReturnType<typeof readSettings>): Check {
  const name = `reach of ${agent.name}`
  if (Object(settings).disableAllHooks === true) {
    return fail(name, 'disableAllHooks is set: no hook runs.', 'Remove disableAllHooks from the settings.')
  }
  const isClaude = agent.name === 'Claude Code'
  if (isClaude && managed && 'problem' in managed) {
    return warn(
      name,
      `Whether the hook may run is not known: ${managed.problem}`,
      'Correct the managed settings, or make them readable for this user.',
    )
  }
  const managedSettings = managed && 'content' in managed ? managed.content : undefined
  const { disableAllHooks, allowManagedHooksOnly } = Object(managedSettings)
  if (isClaude && (disableAllHooks === true || allowManagedHooksOnly === true)) {
    const setting = disableAllHooks === true ? 'disableAllHooks' : 'allowManagedHooksOnly'
    const has = findHooks(managedSettings, agent.events).length > 0
    if (setting === 'disableAllHooks' || !has) {
      return fail(
        name,
        `The managed settings have ${setting}: the hook of the user does not run.`,
        'Add the hook to the managed settings.',
      )
    }
  }
  if (!coversAll(settings, hook!.event)) {
    return warn(
      name,
      'The hook runs for some tools only: tools of subagents and of MCP servers may not be asked about.',
      `Its matcher must be "*". ${reinstall(agent)}`,
    )
  }
  return ok(name, 'The hook runs before every tool, of subagents too.')
}

/**
 * Checks whether each coding agent of this user really enforces policies: runs its hook with harmless calls against a
 * fake service with a policy, and reads its settings.
 */
export async function checkPolicySetup(home?: string, managedFile = managedFiles[process.platform]): Promise<Check[]> {
  const managed = managedFile === undefined ? undefined : readSettings(managedFile)
  const checks: Check[] = []
  for (const found of installedAgents(home)) {
    if ('fault' in found) checks.push(found.fault)
    else if (found.hooks.length === 0) {
      const { name } = found.agent
      checks.push(fail(`policy of ${name}`, `${name} has no Wardline hook.`, `Install it: ${installLine(found.agent)}`))
    } else {
      checks.push(await checkDecisions(found), checkMemory(found), checkReach(found, managed))
    }
  }
  return checks.length > 0 ? checks : [skip('policy', 'No settings of a coding agent exist in your home folder.')]
}
