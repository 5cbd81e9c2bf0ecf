import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

const program = fileURLToPath(new URL('../wardline-agent.ts', import.meta.url))
// Compiling the TypeScript of a command takes longer than running it.
const compileCache = fileURLToPath(new URL('../../../../node_modules/.cache/wardline-agent', import.meta.url))

interface Ended {
  code: number | null
  stdout: string
  stderr: string
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
    const child = spawn(process.execPath, [program, ...args], { cwd: this.folder, env: { ...this.env, ...env } })
    onTestFinished(() => void child.kill('SIGKILL'))
    return child
  }

  run(args: readonly string[], input: string | Buffer = '', env: Record<string, string> = {}): Promise<Ended> {
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
