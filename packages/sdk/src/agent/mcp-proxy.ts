import { type ChildProcess, spawn } from 'node:child_process'
import { stdin, stdout } from 'node:process'
import type { Readable, Writable } from 'node:stream'
import { createMonitor } from '../create-monitor.ts'
import { Service } from '../service.ts'
import { AgentMemory } from './agent-memory.ts'
import {
  type AgentSettings,
  type Environment,
  monitorOptions,
  readAgentSettings,
  stateFolder,
} from './agent-settings.ts'
import { CommandFault, cannotStart, exitCodeOf } from './command-fault.ts'
import { LineSplitter, type Piece } from './line-splitter.ts'
import { McpGuard, type Passage } from './mcp-guard.ts'
import type { Message } from './mcp-messages.ts'
import { ToolReport } from './tool-report.ts'

/** Maximum bytes of a checked message: images arrive as base64 in one line. */
const maxLineBytes = 16 * 1024 * 1024
/** Maximum messages of the client that wait for their checks; above it, reading from the client pauses. */
const maxWaiting = 256
const maxWaitingBytes = 2 * maxLineBytes
/** Time in milliseconds to send the reports of the last calls after the server has ended. */
const flushMs = 2_000
/** A child process of the server may hold its output open forever. */
const closeWithinMs = 1_000
/** A server that never ends a line must not keep answers of the proxy from the client: above this the line is cut. */
const openLineMs = 5_000
/** Bytes of such answers at which the line is cut at once: a client may make many calls meanwhile. */
const maxOwnLength = 64 * 1024

interface ProxyRequest {
  command: string
  args: string[]
  failClosed: boolean
  env: Environment
  warn: (sentence: string) => void
}

/** Runs an MCP server and relays between it and its client until it ends. Returns its exit code. */
export async function runProxy({ command, args, failClosed, env, warn }: ProxyRequest): Promise<number> {
  const settings = readAgentSettings(env, 'mcp-proxy', failClosed)
  if ('fault' in settings) {
    if (settings.failMode === 'closed') throw new CommandFault(settings.fault, 'configuration')
    warn(`No call is checked. ${settings.fault}`)
    return endOf(start(command, args, undefined))
  }
  const { monitor, started } = startMonitor(settings, env, warn)
  const toClient = new LineGaps(stdout)
  const toolReport = new ToolReport(settings, { command, args }, { service: new Service(settings), ready: started })
  const guard = new McpGuard(monitor, {
    warn,
    toClient: (message) => void toClient.add(lineOf(message)),
    onListed: (tools) => toolReport.take(tools),
  })
  const code = await endOf(start(command, args, { guard, toClient }))
  guard.close()
  await monitor.flush(flushMs)
  return code
}

function startMonitor(settings: AgentSettings, env: Environment, warn: ProxyRequest['warn']) {
  const memory = new AgentMemory(stateFolder(env), settings.url, settings.instanceId)
  try {
    memory.makeFolder()
  } catch (fault) {
    warn(`A suspension would not survive a restart (${(fault as { code?: string }).code}).`)
  }
  const { stateFile, suspendLog } = memory
  const monitor = createMonitor({ ...monitorOptions(settings), stateFile, suspendLog })
  monitor.on('error', ({ message }) => warn(message))
  monitor.on('suspend', ({ reason }) => warn(`Suspended: ${reason}`))
  monitor.on('resume', () => warn('Resumed.'))
  return { monitor, started: monitor.start() }
}

function start(
  command: string,
  args: string[],
  relayed: { guard: McpGuard; toClient: LineGaps } | undefined,
): ChildProcess {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal))
  // A closed client reads nothing more, so end the server; its exit ends the proxy.
  stdout.on('error', () => child.kill('SIGTERM'))
  const { stdin: input, stdout: output } = child
  if (!input || !output) return child
  input.on('error', () => {})
  if (!relayed) {
    stdin.pipe(input)
    output.pipe(stdout)
    return child
  }
  const { guard, toClient } = relayed
  new Lane(stdin, input, guard, toClient)
  const splitter = new LineSplitter(maxLineBytes)
  const relay = (pieces: Piece[]) => {
    for (const piece of pieces) {
      guard.see(piece)
      toClient.relay(piece)
    }
  }
  output.on('data', (chunk: Buffer) => {
    relay(splitter.push(chunk))
    if (!stdout.writableNeedDrain) return
    output.pause()
    stdout.once('drain', () => output.resume())
  })
  output.on('end', () => {
    relay(splitter.rest())
    toClient.end()
  })
  return child
}

/** Forwards the client's messages in order, each after its check. Several checks run concurrently. */
class Lane {
  readonly #to: Writable
  #last: Promise<void> = Promise.resolve()
  #waiting = 0
  #bytes = 0

  constructor(from: Readable, to: Writable, guard: McpGuard, toClient: LineGaps) {
    this.#to = to
    const splitter = new LineSplitter(maxLineBytes)
    const take = (pieces: Piece[]) => {
      for (const piece of pieces) this.#queue(from, piece.bytes.length, guard.check(piece), toClient)
    }
    from.on('data', (chunk: Buffer) => take(splitter.push(chunk)))
    from.on('end', () => {
      take(splitter.rest())
      guard.leave()
      void this.#last.then(() => to.end())
    })
  }

  #queue(from: Readable, bytes: number, checked: Promise<() => Passage>, toClient: LineGaps): void {
    this.#waiting += 1
    this.#bytes += bytes
    if (this.#isFull) from.pause()
    this.#last = this.#last.then(async () => {
      const pass = await checked
      await this.#pass(pass, toClient)
      await drained(this.#to)
      this.#waiting -= 1
      this.#bytes -= bytes
      if (!this.#isFull) from.resume()
    })
  }

  async #pass(pass: () => Passage, toClient: LineGaps): Promise<void> {
    const { forward, answers, later } = pass()
    // At once, before anything is awaited: the agent may be suspended meanwhile.
    if (forward && !this.#to.writableEnded) this.#to.write(forward)
    void later?.then((passLater) => this.#pass(passLater, toClient))
    for (const answer of answers) await toClient.add(lineOf(answer))
  }

  get #isFull(): boolean {
    return this.#waiting >= maxWaiting || this.#bytes >= maxWaitingBytes
  }
}

const lineOf = (message: Message): string => `${JSON.stringify(message)}\n`

const drained = (stream: Writable) =>
  new Promise<void>((resolve) => {
    if (stream.destroyed || !stream.writableNeedDrain) return resolve()
    stream.once('drain', resolve).once('close', resolve)
  })

/** Inserts the proxy's own lines between the lines of the server, which arrive whole unless they are too long to buffer. */
class LineGaps {
  readonly #to: Writable
  #own = ''
  #line: 'ended' | 'open' | 'cut' = 'ended'
  #isLast = false
  #cut: NodeJS.Timeout | undefined

  constructor(to: Writable) {
    this.#to = to
  }

  /** Resolves once the client has read enough for more. */
  add(line: string): Promise<void> {
    this.#own += line
    if (this.#line !== 'open') this.#flush()
    else if (this.#isLast || this.#own.length > maxOwnLength) this.#cutLine()
    else this.#cut ??= setTimeout(() => this.#cutLine(), openLineMs)
    return drained(this.#to)
  }

  /** Call when the server has closed its output: a line that is open then never ends. */
  end(): void {
    this.#isLast = true
    if (this.#own !== '') this.#cutLine()
  }

  relay({ bytes, kind }: Piece): void {
    const isCut = this.#line === 'cut'
    if (!isCut) this.#to.write(bytes)
    // Without its line end it is the last text of the server.
    const isEnd = kind !== 'part' && bytes.at(-1) === 0x0a
    this.#line = isEnd ? 'ended' : isCut ? 'cut' : 'open'
    if (isEnd) this.#flush()
  }

  #cutLine(): void {
    this.#to.write('\n')
    this.#line = 'cut'
    this.#flush()
  }

  #flush(): void {
    clearTimeout(this.#cut)
    this.#cut = undefined
    if (this.#own !== '') this.#to.write(this.#own)
    this.#own = ''
  }
}

/** Returns the server's exit code; for a signal 128 plus its number, as shells do. */
function endOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.on('error', (fault) => reject(cannotStart(child.spawnfile, fault)))
    child.on('exit', (code, signal) => {
      const end = () => resolve(exitCodeOf(code, signal))
      child.on('close', end)
      setTimeout(end, closeWithinMs)
    })
  })
}
