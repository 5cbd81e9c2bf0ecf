import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { policyHeader } from '@wardline/contract'

export interface HookAnswer {
  /** Null when it was ended by a signal. */
  exitCode: number | null
  stdout: string
  timedOut: boolean
  /** Requests of the hook to the fake service. */
  asked: number
  ms: number
}

const probeInstance = 'wardline-doctor'
/** Coding agents wait longer, but an operator should not have to. */
const answerWithinMs = 10_000
/** A real answer has a few hundred characters. */
const maxCharacters = 64 * 1024

interface StandIn {
  url: string
  asked(): number
  close(): void
}

/** What the fake service says of every instance. */
export type ProbeState = 'suspended' | { policy: object }

/** Body and version of the policies of an instance; nothing signs them. */
const policySet = (policy: object) => ({
  instance_id: probeInstance,
  version: 1,
  body: JSON.stringify({
    agent: { id: probeInstance, tags: [] },
    policies: [{ id: randomUUID(), title: 'Check of the hook', version: 1, mode: 'enforce', document: policy }],
  }),
  signature_ed25519: '',
})

/**
 * Starts a fake service that accepts all reports, and reports every instance as suspended, or as active with a policy. The
 * hook must deny the call.
 */
async function startStandIn(state: ProbeState): Promise<StandIn> {
  let asked = 0
  const policy = state === 'suspended' ? undefined : policySet(state.policy)
  // See send-http.ts for why it is not imported.
  const server: Server = process.getBuiltinModule('node:http').createServer((request, response) => {
    asked++
    request.resume()
    const path = request.url ?? ''
    const send = (status: number, body: object) =>
      response
        .writeHead(status, { 'content-type': 'application/json', etag: 'W/"1"', [policyHeader]: policy ? '1' : '0' })
        .end(JSON.stringify(body))
    if (path.endsWith('/status')) send(200, { suspended: !policy, reason: policy ? null : 'wardline doctor --hooks' })
    else if (path.endsWith('/policy')) send(policy ? 200 : 404, policy ?? { error: 'Unknown route.' })
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

/** Environment that overrides the settings of the hook, with a temporary state folder. */
const probeEnvironment = (url: string, stateFolder: string): NodeJS.ProcessEnv => ({
  ...process.env,
  WARDLINE_URL: url,
  WARDLINE_KEY: 'wl_agent_doctor_probe',
  WARDLINE_KEY_FILE: undefined,
  // The fake service does not sign.
  WARDLINE_PUBLIC_KEY: undefined,
  WARDLINE_INSTANCE_ID: probeInstance,
  XDG_STATE_HOME: stateFolder,
})

export interface StatusAnswer {
  /** Null when it was ended by a signal. */
  exitCode: number | null
  stdout: string
  stderr: string
}

/**
 * Returns the command that shows a hook's connection to the real service: the same program with the same settings.
 * Undefined if the hook is not registered in the form that `wardline-agent install` writes.
 */
export function statusCommand(hookCommand: string, tool: string): string | undefined {
  const status = hookCommand.replace(/\bhook(?:\s+[a-z-]+)?(?:\s+--fail-closed)?\s*$/, `status ${tool}`)
  return status === hookCommand ? undefined : status
}

/** Returns the command that prints the version of a hook's program; undefined as for `statusCommand`. */
export const versionCommand = (hookCommand: string): string | undefined =>
  statusCommand(hookCommand, '')?.replace(/status $/, '--version')

const { WARDLINE_URL: _url, WARDLINE_KEY: key, WARDLINE_KEY_FILE: keyFile, ...withoutKey } = process.env

/**
 * Runs the status command of a hook, which polls its service with its key but reports nothing and registers no instance.
 * A key in the environment of doctor is mostly an operator's, so it is only used if the hook's settings file has none.
 */
export async function askService(command: string): Promise<StatusAnswer> {
  const answer = await runStatus(command, withoutKey)
  const hasNoSettings = answer.exitCode === 78
  return hasNoSettings && (key || keyFile) ? runStatus(command, process.env) : answer
}

export async function runStatus(command: string, env: NodeJS.ProcessEnv): Promise<StatusAnswer> {
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

/** Collects the output of a program, up to a limit. */
function printed(stream: Readable): () => string {
  let all = ''
  stream.setEncoding('utf8').on('data', (text: string) => {
    if (all.length < maxCharacters) all += text
  })
  return () => all
}

/** Runs a hook like its coding agent, by a shell and with JSON on standard input, against the fake service. */
export async function runHook(
  command: string,
  input: Record<string, unknown>,
  state: ProbeState = 'suspended',
): Promise<HookAnswer> {
  const standIn = await startStandIn(state)
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
    // A hook may exit without reading its input.
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
