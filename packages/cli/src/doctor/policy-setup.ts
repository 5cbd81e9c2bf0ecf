import { isHookEntry } from '@wardline/sdk/coding-agents'
import { type Check, fail, ok, skip, warn } from './check.ts'
import { runHook } from './hook-run.ts'
import {
  type FoundAgent,
  findHooks,
  hookKinds,
  installedAgents,
  installLine,
  isDenied,
  isFault,
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

/** Whether the hook runs before every tool; for others it is never asked. */
function coversAll(settings: unknown, event: string): boolean {
  const entries = Object(Object(settings).hooks)[event]
  if (!Array.isArray(entries)) return false
  return entries.some((entry) => {
    const { matcher, hooks } = Object(entry)
    const own = Array.isArray(hooks) ? hooks.some(isHookEntry) : isHookEntry(entry)
    return own && (matcher === undefined || matcher === '' || matcher === '*' || matcher === '.*')
  })
}

/** Runs the hook with a call that a policy denies, and with the same call wrapped in other programs. */
async function checkDecisions(agent: FoundAgent): Promise<Check> {
  const {
    product,
    tool,
    hooks: [hook],
  } = agent
  const name = `policy of ${product}`
  const { command, event } = hook!
  const isDeniedAs = async (line: string) =>
    isDenied(await runHook(command, hookKinds[tool].probe(event, line), { policy: denyTrue }))
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
function checkMemory(agent: FoundAgent): Check {
  const { product, tool, settings } = agent
  const name = `flows of ${product}`
  const { prompt, result } = hookKinds[tool].memory
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
function checkReach(agent: FoundAgent): Check {
  const {
    product,
    settings,
    off,
    unknown,
    hooks: [hook],
  } = agent
  const name = `reach of ${product}`
  if (off !== undefined) return fail(name, `${product} does not run the hook: ${off}.`, 'Correct the setting.')
  if (unknown !== undefined) {
    return warn(
      name,
      `Whether the hook may run is not known: ${unknown} cannot be read.`,
      'Correct the managed settings, or make them readable for this user.',
    )
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
export async function checkPolicySetup(...from: Parameters<typeof installedAgents>): Promise<Check[]> {
  const checks: Check[] = []
  for (const found of installedAgents(...from)) {
    if (isFault(found)) checks.push(found.fault)
    else if (found.hooks.length === 0) {
      const { product } = found
      checks.push(fail(`policy of ${product}`, `${product} has no Wardline hook.`, `Install it: ${installLine(found)}`))
    } else {
      checks.push(await checkDecisions(found), checkMemory(found), checkReach(found))
    }
  }
  return checks.length > 0 ? checks : [skip('policy', 'No settings of a coding agent exist in your home folder.')]
}
