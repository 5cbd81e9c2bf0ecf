import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'

export interface HookAnswer {
  /** Null when it was ended by a signal. */
  exitCode: number | null
  stdout: string
  timedOut: boolean
  /** Requests that it made to the stand-in. */
  asked: number
  ms: number
}

/** A coding agent waits longer than an operator should for this check. */
const answerWithinMs = 10_000
/** An answer has a few hundred characters. */
const maxCharacters = 64 * 1024

interface StandIn {
  url: string
  asked(): number
  close(): void
}

/** Says of every instance that it is suspended, and takes whatever is reported: the hook must say no, and changes nothing. */
async function startStandIn(): Promise<StandIn> {
  let asked = 0
  // See send-http.ts for why it is not imported.
  const server: Server = process.getBuiltinModule('node:http').createServer((request, response) => {
    asked++
    request.resume()
    const path = request.url ?? ''
    const send = (status: number, body: object) =>
      response.writeHead(status, { 'content-type': 'application/json', etag: 'W/"1"' }).end(JSON.stringify(body))
    if (path.endsWith('/status')) send(200, { suspended: true, reason: 'wardline doctor --hooks' })
    else if (path.includes('/check/')) send(200, { matched: false })
    else if (path.endsWith('/batch')) send(200, { ok: true, ids: [], errors: [] })
    else if (path.endsWith('/events')) send(201, { ok: true, id: randomUUID() })
    else if (path.endsWith('/control')) send(404, { error: 'Unknown route.' })
    else send(200, { ok: true })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: () => asked,
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** The environment has to win over what the hook is set up with, and nothing that it remembers may outlive the probe. */
const probeEnvironment = (url: string, stateFolder: string): NodeJS.ProcessEnv => ({
  ...process.env,
  WARDLINE_URL: url,
  WARDLINE_KEY: 'wl_agent_doctor_probe',
  WARDLINE_KEY_FILE: undefined,
  // The stand-in signs nothing.
  WARDLINE_PUBLIC_KEY: undefined,
  WARDLINE_INSTANCE_ID: 'wardline-doctor',
  XDG_STATE_HOME: stateFolder,
})

export interface StatusAnswer {
  /** Null when it was ended by a signal. */
  exitCode: number | null
  stdout: string
  stderr: string
}

/**
 * The command that says how a hook stands with the real service: the same program with the same settings. Undefined
 * when the hook is registered in a form that `wardline-agent install` does not write.
 */
export function statusCommand(hookCommand: string, tool: string): string | undefined {
  const status = hookCommand.replace(/\bhook(?:\s+[a-z-]+)?(?:\s+--fail-closed)?\s*$/, `status ${tool}`)
  return status === hookCommand ? undefined : status
}

const { WARDLINE_URL: _url, WARDLINE_KEY: key, WARDLINE_KEY_FILE: keyFile, ...withoutKey } = process.env

/**
 * Has the program of a hook ask its service with its key; that reports nothing and registers no instance. A key in the
 * environment of doctor mostly is that of an operator, so it counts only where the hook has no key in its settings file.
 */
export async function askService(command: string): Promise<StatusAnswer> {
  const answer = await runStatus(command, withoutKey)
  const hasNoSettings = answer.exitCode === 78
  return hasNoSettings && (key || keyFile) ? runStatus(command, process.env) : answer
}

async function runStatus(command: string, env: NodeJS.ProcessEnv): Promise<StatusAnswer> {
  const child = spawn(command, {
    shell: true,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: answerWithinMs,
    killSignal: 'SIGKILL',
  })
  const [stdout, stderr] = [printed(child.stdout), printed(child.stderr)]
  const [exitCode] = (await once(child, 'close')) as [number | null]
  return { exitCode, stdout: stdout(), stderr: stderr() }
}

/** Output of a program, up to a limit. */
function printed(stream: Readable): () => string {
  let all = ''
  stream.setEncoding('utf8').on('data', (text: string) => {
    if (all.length < maxCharacters) all += text
  })
  return () => all
}

/** Runs a hook as its coding agent does, by a shell and with JSON on standard input, against the stand-in. */
export async function runHook(command: string, input: Record<string, unknown>): Promise<HookAnswer> {
  const standIn = await startStandIn()
  const stateFolder = mkdtempSync(join(tmpdir(), 'wardline-doctor-'))
  const startedAt = performance.now()
  try {
    const env = probeEnvironment(standIn.url, stateFolder)
    const child = spawn(command, {
      shell: true,
      env,
      stdio: ['pipe', 'pipe', 'ignore'],
      timeout: answerWithinMs,
      killSignal: 'SIGKILL',
    })
    const stdout = printed(child.stdout)
    // A hook that reads nothing closes the pipe early, which is its right.
    child.stdin.on('error', () => {})
    child.stdin.end(JSON.stringify(input))
    const [exitCode, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
    const ms = Math.round(performance.now() - startedAt)
    return {
      exitCode,
      stdout: stdout(),
      timedOut: signal === 'SIGKILL' && ms >= answerWithinMs,
      asked: standIn.asked(),
      ms,
    }
  } finally {
    standIn.close()
    rmSync(stateFolder, { recursive: true, force: true })
  }
}
