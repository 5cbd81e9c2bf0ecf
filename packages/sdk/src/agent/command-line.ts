import { createInterface } from 'node:readline/promises'
import { codingTools } from '../coding-tools.ts'
import { plainLine } from '../plain-line.ts'
import type { CodingTool, Environment } from './agent-settings.ts'
import { CommandFault } from './command-fault.ts'
import { watchCommand } from './supervisor/watch-command.ts'

// All commands except `hook`, which must start fast and does not load this module.

const flagsOf: Record<string, readonly string[]> = {
  install: ['--project', '--fail-closed', '--dry-run', '--yes'],
  uninstall: ['--project', '--dry-run', '--yes'],
  status: [],
  'mcp-proxy': ['--fail-closed'],
}
const kinds = [...codingTools, 'mcp-proxy'] as const

const wrong = (sentence: string) => new CommandFault(`${sentence} See: wardline-agent --help`, 'usage')

function checkFlags(command: string, words: string[]): (name: string) => boolean {
  const flags = words.filter((word) => word.startsWith('-'))
  const unknown = flags.find((flag) => !flagsOf[command]!.includes(flag))
  if (unknown !== undefined) throw wrong(`${command} has no option ${unknown}.`)
  return (name) => flags.includes(name)
}

/** Returns the only word that is not an option. Throws a usage error unless it is one of `names`. */
function chosen<Name extends string>(command: string, words: string[], names: readonly Name[]): Name | undefined {
  const [word, ...more] = words.filter((other) => !other.startsWith('-'))
  if (more.length > 0 || (word !== undefined && !names.includes(word as Name))) {
    throw wrong(`${command} takes one of ${names.join(', ')}.`)
  }
  return word as Name | undefined
}

async function ask(question: string): Promise<boolean> {
  const lines = createInterface({ input: process.stdin, output: process.stdout })
  try {
    return /^y(es)?$/i.test(await lines.question(question))
  } finally {
    lines.close()
  }
}

const say = (line: string): void => void process.stdout.write(`${line}\n`)
const warn = (sentence: string): void => void process.stderr.write(`wardline-agent: ${plainLine(sentence)}\n`)

async function runInstaller(command: 'install' | 'uninstall', words: string[], env: Environment): Promise<number> {
  const has = checkFlags(command, words)
  const tool: CodingTool | undefined = chosen(command, words, codingTools)
  if (tool === undefined) throw wrong(`${command} takes one of ${codingTools.join(', ')}.`)
  const { install, uninstall } = await import('./install.ts')
  await (command === 'install' ? install : uninstall)({
    tool,
    inProject: has('--project'),
    yes: has('--yes'),
    dryRun: has('--dry-run'),
    failClosed: has('--fail-closed'),
    env,
    ask: process.stdin.isTTY && process.stdout.isTTY ? ask : undefined,
    say,
  })
  return 0
}

async function runMcpProxy(words: string[], env: Environment): Promise<number> {
  const end = words.indexOf('--')
  const [command, ...args] = end < 0 ? [] : words.slice(end + 1)
  const own = words.slice(0, end < 0 ? undefined : end)
  const has = checkFlags('mcp-proxy', own)
  if (command === undefined || chosen('mcp-proxy', own, []) !== undefined) {
    throw wrong('mcp-proxy takes a command after "--".')
  }
  const { runProxy } = await import('./mcp-proxy.ts')
  return runProxy({ command, args, failClosed: has('--fail-closed'), env, warn })
}

async function runSupervisor(words: string[], env: Environment): Promise<number> {
  const { readRunOptions } = await import('./supervisor/run-options.ts')
  const options = readRunOptions(words)
  const { runSupervised } = await import('./supervisor/run.ts')
  return runSupervised(options, env, warn)
}

async function runStatus(words: string[], env: Environment): Promise<number> {
  checkFlags('status', words)
  const kind = chosen('status', words, kinds) ?? 'claude-code'
  const { showStatus } = await import('./status.ts')
  return showStatus(kind, env, say)
}

async function run(command: string | undefined, words: string[], env: Environment): Promise<number> {
  if (command === 'install' || command === 'uninstall') return runInstaller(command, words, env)
  if (command === 'mcp-proxy') return runMcpProxy(words, env)
  if (command === 'run') return runSupervisor(words, env)
  if (command === watchCommand) {
    await (await import('./supervisor/watcher.ts')).watchTree()
    return 0
  }
  if (command === 'status') return runStatus(words, env)
  const { help, version } = await import('./help.ts')
  if (command === '--version') say(version)
  else if (command === '--help' || command === 'help') say(help)
  else throw wrong(command === undefined ? 'A command is missing.' : `Unknown command ${command}.`)
  return 0
}

/** Runs a command and returns its exit code. Prints a CommandFault as one sentence. */
export async function runCommand(command: string | undefined, words: string[], env: Environment): Promise<number> {
  try {
    return await run(command, words, env)
  } catch (fault) {
    if (!(fault instanceof CommandFault)) throw fault
    warn(fault.message)
    return fault.exitCode
  }
}
