import { homedir } from 'node:os'
import { products, type Reported, reportNow, type Tool, tools } from '@wardline/sdk/coding-agents'
import { version } from '../version.ts'
import { type Check, ok, skip, warn } from './check.ts'
import { runStatus, versionCommand } from './hook-run.ts'
import { installedAgents, isFault } from './hooks.ts'

/** The key of the settings file; else one in the environment, if it is an agent's: an operator's may change any agent. */
async function report(tool: Tool, env: NodeJS.ProcessEnv, home: string): Promise<Reported | undefined> {
  const { WARDLINE_URL: _url, WARDLINE_KEY: key = '', WARDLINE_KEY_FILE: _file, ...withoutKey } = env
  const reported = await reportNow(tool, withoutKey, home)
  const hasNoKey = reported !== undefined && reported.status === undefined
  return hasNoKey && key.startsWith('wl_agent_') ? reportNow(tool, env, home) : reported
}

/** Another version writes its hook differently: compared with that, a whole hook would look weakened. */
async function otherVersion(commands: readonly string[]): Promise<string | undefined> {
  for (const command of commands) {
    const asking = versionCommand(command)
    if (asking === undefined) continue
    const found = (await runStatus(asking, process.env)).stdout.trim()
    if (found !== version) return found || 'an unknown version'
  }
  return undefined
}

function judge(product: string, { instanceId, status, changes, fault }: Reported): Check {
  const name = `settings of ${product}`
  if (status === undefined) return skip(name, `There is no key to report them with. ${fault}`)
  if (status === 404) return skip(name, `${instanceId} has made no call yet, so there is nothing to compare them with.`)
  if (fault !== undefined) return warn(name, `They were not reported. ${fault}`, 'Correct it, then run doctor again.')
  if (changes === 0) return ok(name, `They are as ${instanceId} last reported them.`)
  return warn(
    name,
    `${changes} entries are not as ${instanceId} last reported them: agent_config_changed says which.`,
    `wardline instances config ${instanceId}`,
  )
}

/**
 * Reports the configuration of each coding agent with the key of its hook: a hook that was removed reports nothing. What
 * changed is an event of the agent.
 */
export async function checkConfigurations(home = homedir(), env: NodeJS.ProcessEnv = process.env): Promise<Check[]> {
  const found = installedAgents(home, env).filter((agent) => !isFault(agent))
  const checks: Check[] = []
  for (const tool of tools) {
    const hooks = found.flatMap((agent) => ('hooks' in agent && agent.tool === tool ? agent.hooks : []))
    const other = await otherVersion(hooks.map(({ command }) => command))
    if (other !== undefined) {
      const detail = `They are compared by the same version only: the agent has ${other}, this command ${version}.`
      checks.push(skip(`settings of ${products[tool]}`, detail))
      continue
    }
    const reported = await report(tool, env, home)
    if (reported) checks.push(judge(products[tool], reported))
  }
  return checks
}
