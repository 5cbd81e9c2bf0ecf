import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import type { Ended, HostedCommand } from './command-host.ts'

const program = fileURLToPath(new URL('../wardline-agent.ts', import.meta.url))
/** Finds the sources of other packages, which are not built here. */
const fromSources = ['--conditions=wardline-source']
// Compiling the TypeScript of a command takes longer than running it.
const compileCache = fileURLToPath(new URL('../../../../node_modules/.cache/wardline-agent', import.meta.url))

/** Processes that run one command after the other, and those of them that wait for one. */
const hosts: ChildProcess[] = []
const idleHosts: ChildProcess[] = []
/** Commands beyond that, of tests that start many at once, have a process each. */
const maxHosts = 4

function startHost(): ChildProcess {
  const file = fileURLToPath(new URL('command-host.ts', import.meta.url))
  const host = fork(file, [program], {
    execPath: process.execPath,
    execArgv: fromSources,
    env: { NODE_COMPILE_CACHE: compileCache },
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
  // A command that hangs does not notice that the tests have ended.
  process.once('exit', () => host.kill('SIGKILL'))
  host.unref()
  host.channel?.unref()
  hosts.push(host)
  return host
}

async function runInHost(host: ChildProcess, command: HostedCommand): Promise<Ended> {
  host.channel?.ref()
  host.send(command)
  const [ended] = await once(host, 'message')
  host.channel?.unref()
  idleHosts.push(host)
  return ended
}

/** Empty home folder of a user. Runs commands in it without the settings of the shell. */
export class AgentHome {
  readonly folder = mkdtempSync(join(tmpdir(), 'wardline-agent-'))
  env: Record<string, string>

  constructor(env: Record<string, string> = {}) {
    this.env = { PATH: process.env.PATH ?? '', HOME: this.folder, NODE_COMPILE_CACHE: compileCache, ...env }
    onTestFinished(() => rmSync(this.folder, { recursive: true, force: true }))
  }

  path(...names: string[]): string {
    return join(this.folder, ...names)
  }

  write(name: string, content: unknown, mode = 0o600): string {
    const file = this.path(name)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content), { mode })
    return file
  }

  read(name: string): string {
    return readFileSync(this.path(name), 'utf8')
  }

  start(args: readonly string[], env: Record<string, string> = {}): ChildProcess {
    const child = spawn(process.execPath, [...fromSources, program, ...args], {
      cwd: this.folder,
      env: { ...this.env, ...env },
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    return child
  }

  /**
   * Runs a command to its end, in one process with commands before it. In a separate one if that is what is tested: a
   * proxy, whose streams and signals are those of its process; a program that is loaded before the command; many at once.
   */
  run(args: readonly string[], input: string | Buffer = '', env: Record<string, string> = {}): Promise<Ended> {
    const isAlone = args[0] === 'mcp-proxy' || env.NODE_OPTIONS !== undefined
    const host = isAlone ? undefined : (idleHosts.pop() ?? (hosts.length < maxHosts ? startHost() : undefined))
    if (host) return runInHost(host, { args, input, env: { ...this.env, ...env }, cwd: this.folder })
    const child = this.start(args, env)
    // A command that does not read its input closes the pipe early.
    child.stdin?.on('error', () => {}).end(input)
    return ended(child)
  }

  hook(args: readonly string[], call: unknown, env: Record<string, string> = {}): Promise<Ended> {
    return this.run(['hook', ...args], typeof call === 'string' ? call : JSON.stringify(call), env)
  }
}

export function ended(child: ChildProcess): Promise<Ended> {
  let stdout = ''
  let stderr = ''
  child.stdout?.setEncoding('utf8').on('data', (text) => {
    stdout += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject).on('close', (code) => resolve({ code, stdout, stderr }))
  })
}

/** Returns recorded hook input of a coding agent, by file name. */
export function sample(name: string): Record<string, unknown> {
  return JSON.parse(readFileSync(new URL(`../agent/fixtures/${name}.json`, import.meta.url), 'utf8'))
}

/** Starts a server other than the service that gives every request this answer. */
export async function startStranger(
  status: number,
  body = '{}',
  headers: Record<string, string> = {},
): Promise<string> {
  const server = createServer((request, response) => {
    request.resume()
    response.writeHead(status, headers).end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
