import { basename } from 'node:path'
import { readOptions } from '../../options.ts'
import { AgentMemory } from '../agent-memory.ts'
import { type Environment, monitorOptions, readAgentSettings, stateFolder } from '../agent-settings.ts'
import { CommandFault } from '../command-fault.ts'
import { findAccount } from './account.ts'
import type { RunOptions } from './run-options.ts'
import { Supervisor } from './supervisor.ts'

/** Runs a command and holds its processes while the agent is suspended. Returns its exit code. */
export async function runSupervised(
  options: RunOptions,
  env: Environment,
  warn: (sentence: string) => void,
): Promise<number> {
  if (process.platform === 'win32') {
    throw new CommandFault('run cannot stop processes on Windows. Run the agent in WSL or in a Linux container.')
  }
  const given = options.instance === undefined ? env : { ...env, WARDLINE_INSTANCE_ID: options.instance }
  const read = readAgentSettings(given, 'supervisor', false, basename(options.command))
  // In each fail mode: without settings nothing would be held, and no service that comes back changes that.
  if ('fault' in read) throw new CommandFault(read.fault, 'configuration')
  const account = options.user === undefined ? undefined : findAccount(options.user)
  const memory = new AgentMemory(stateFolder(env), read.url, read.instanceId)
  try {
    memory.makeFolder()
  } catch (fault) {
    warn(`A suspension would not survive a restart (${(fault as { code?: string }).code}).`)
  }
  const { stateFile, suspendLog } = memory
  // No type: the agent may give itself one.
  const settings = readOptions({ ...monitorOptions(read), agentType: undefined, stateFile, suspendLog })
  return new Supervisor({ settings, options, account, env, warn }).run()
}
