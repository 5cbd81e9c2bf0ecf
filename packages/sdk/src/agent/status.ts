import { AgentMemory } from './agent-memory.ts'
import {
  type AgentKind,
  type AgentSettings,
  type Environment,
  productNames,
  readAgentSettings,
  stateFolder,
} from './agent-settings.ts'
import { CommandFault, exitCodes } from './command-fault.ts'
import { pollControl } from './control-check.ts'
import { plainLine } from './plain-line.ts'
import { PlainService } from './plain-service.ts'

const askMs = 2_000

/** Says what a hook or proxy is set up with and what it knows, and asks the service once. An exit code. */
export async function showStatus(kind: AgentKind, env: Environment, say: (line: string) => void): Promise<number> {
  const settings = readAgentSettings(env, kind, false)
  if ('fault' in settings) throw new CommandFault(settings.fault, 'configuration')
  const { url, instanceId, failMode } = settings
  const memory = new AgentMemory(stateFolder(env), url, instanceId)
  const lines = { agent: productNames[kind], service: url, instance: instanceId, 'fail mode': failMode }
  for (const [name, value] of Object.entries(lines)) say(`${name.padEnd(13)} ${value}`)
  say(`last contact  ${memory.lastContact?.toISOString() ?? 'none yet'}`)
  if (memory.lost > 0) say(`unreported    ${memory.lost} calls`)
  const { state, fault } = await ask(settings, memory)
  const suspension = state?.suspended ? `suspended (${plainLine(state.reason ?? 'no reason was given')})` : 'active'
  say(`state         ${suspension}${state ? `, version ${state.version}` : ''}${fault ? ', as far as was heard' : ''}`)
  if (fault) say(fault)
  return state?.suspended ? exitCodes.suspended : fault ? exitCodes.unreachable : 0
}

function ask(settings: AgentSettings, memory: AgentMemory) {
  const service = new PlainService(settings, performance.now() + askMs)
  return pollControl({ service, settings, known: memory.told(), timeoutMs: askMs })
}
