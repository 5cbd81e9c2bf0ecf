import { plainLine } from '../plain-line.ts'
import { checkAccess } from './access.ts'
import { AgentMemory } from './agent-memory.ts'
import { type AgentKind, type Environment, productNames, readAgentSettings, stateFolder } from './agent-settings.ts'
import { CommandFault, exitCodes } from './command-fault.ts'
import { isInstalled } from './install.ts'

/** Prints the settings and stored state of a hook or proxy, and asks the service once. Returns an exit code. */
export async function showStatus(
  kind: Exclude<AgentKind, 'supervisor'>,
  env: Environment,
  say: (line: string) => void,
): Promise<number> {
  const settings = readAgentSettings(env, kind, false)
  if ('fault' in settings) throw new CommandFault(settings.fault, 'configuration')
  const { url, instanceId, failMode } = settings
  const memory = new AgentMemory(stateFolder(env), url, instanceId)
  const lines = { agent: productNames[kind], service: url, instance: instanceId, 'fail mode': failMode }
  for (const [name, value] of Object.entries(lines)) say(`${name.padEnd(13)} ${value}`)
  say(`last contact  ${memory.lastContact?.toISOString() ?? 'none yet'}`)
  if (memory.lost > 0) say(`unreported    ${memory.lost} calls`)
  const { state, fault } = await checkAccess(settings, memory.latest())
  if (fault && !state) throw new CommandFault(fault, 'unreachable')
  const suspension = state?.suspended ? `suspended (${plainLine(state.reason ?? 'no reason was given')})` : 'active'
  const installation = kind === 'mcp-proxy' ? '' : isInstalled(kind, env) ? 'installed; ' : 'not installed; '
  say(
    `state         ${state ? `${suspension}, version ${state.version}${fault ? ', as last reported' : ''}` : `${installation}no call yet`}`,
  )
  if (state?.suspended) return exitCodes.suspended
  if (fault) throw new CommandFault(fault, 'unreachable')
  return 0
}
