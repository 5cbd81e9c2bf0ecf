import { createHash } from 'node:crypto'
import { eventTypes, type NewEvent, telemetrySource, toolOf } from '@wardline/contract'
import { hourMs } from '../../clock.ts'
import type { EventFields } from '../../db/schema/events.ts'
import type { Deps } from '../../deps.ts'
import type { LogFollower } from '../events/log-follower.ts'
import { readLatestEvents } from '../events/log-statements.ts'
import { readWitnesses } from '../instances/heard-by-statements.ts'

/** Calls that are remembered: some 250 bytes each. */
const maxCalls = 100_000
/** Of one agent, and events that are read of it at first: of its telemetry some more. */
const maxOfAgent = 256
const maxRead = 1_000
/** Telemetry that comes later than this is of another call. */
const keptMs = hourMs
/**
 * How long telemetry waits for the report of an SDK, which collects for a second: exporters may send theirs before it. The
 * exporter waits for the answer, by default ten seconds, so nothing is lost in a crash.
 */
const clientMs = 2_500
/** Calls that are waited for, some 200 bytes each: what comes beyond them is stored at once. */
const maxWanted = 10_000
/** How Claude Code names tools of MCP servers unless OTEL_LOG_TOOL_DETAILS is set. */
const anyServerTool = 'mcp_tool'

type Metadata = Record<string, unknown>

/** A call as a client of the agent reported it. */
interface ClientCall {
  at: number
  tool: string
  types: Set<string>
  /** Digest of the arguments as reported. */
  shown: string
}

interface Agent {
  calls: Map<string, ClientCall>
  /** A client names its calls. False once a call was waited for in vain, until the client is heard again. */
  isAwaited: boolean
  loaded: Promise<void>
}

const callTypes: readonly string[] = [eventTypes.toolCall, eventTypes.toolBlocked]

const callIdOf = ({ callId }: Metadata): string | undefined =>
  typeof callId === 'string' && callId !== '' ? callId.slice(0, 200) : undefined

const nameOf = ({ instance_id, metadata = {} }: NewEvent): string => `${instance_id} ${callIdOf(metadata)}`

const digest = ({ action, paths, hosts, command, params }: Metadata): string =>
  createHash('sha256')
    .update(JSON.stringify([action, paths, hosts, command, params]))
    .digest('base64url')

/**
 * The calls that clients of agents (hook, SDK) reported, by the id that the model gave them, so that telemetry of the same
 * call is not counted again. Only of agents that send telemetry with such ids.
 */
export class ClientCalls {
  readonly #deps: Pick<Deps, 'database' | 'clock' | 'log'>
  /** The one that sent telemetry last is the last one. */
  readonly #agents = new Map<string, Agent>()
  #count = 0
  /** Calls that telemetry showed first, by agent and id, and what to call once a client reports them. */
  readonly #wanted = new Map<string, Set<(name: string) => void>>()

  constructor(
    deps: Pick<Deps, 'database' | 'clock' | 'log'>,
    { logFollower }: { logFollower: Pick<LogFollower, 'listen'> },
  ) {
    this.#deps = deps
    logFollower.listen((row) => this.#hear(row))
  }

  /** Returns those of the reports of telemetry that show nothing but what a client reported before. Rejects when the database fails. */
  async findRepeated(reports: readonly NewEvent[]): Promise<Set<NewEvent>> {
    const named = reports.filter(({ metadata }) => callIdOf(metadata ?? {}) !== undefined)
    await Promise.all([...new Set(named.map(({ instance_id }) => instance_id!))].map((id) => this.#open(id)))
    await this.#waitForClients(named)
    const now = this.#deps.clock.now()
    return new Set(named.filter((report) => this.#isRepeated(report, now)))
  }

  /** Resolves once the clients have reported these calls, or had the time to. */
  async #waitForClients(named: readonly NewEvent[]): Promise<void> {
    const missing = new Map<string, string>()
    for (const report of named) {
      const agent = this.#agents.get(report.instance_id!)
      const isMissing = agent?.isAwaited && !agent.calls.has(callIdOf(report.metadata!)!)
      if (isMissing) missing.set(nameOf(report), report.instance_id!)
    }
    if (missing.size === 0 || this.#wanted.size + missing.size > maxWanted) return
    await new Promise<void>((resolve) => {
      const end = () => {
        clearTimeout(timer)
        for (const name of missing.keys()) this.#unwant(name, found)
        resolve()
      }
      const found = (name: string) => {
        missing.delete(name)
        if (missing.size === 0) end()
      }
      const timer = setTimeout(end, clientMs)
      for (const name of missing.keys()) {
        const waiting = this.#wanted.get(name) ?? new Set()
        this.#wanted.set(name, waiting.add(found))
      }
    })
    for (const id of missing.values()) {
      const agent = this.#agents.get(id)
      if (agent) agent.isAwaited = false
    }
  }

  #unwant(name: string, found: (name: string) => void): void {
    const waiting = this.#wanted.get(name)
    waiting?.delete(found)
    if (waiting?.size === 0) this.#wanted.delete(name)
  }

  #isRepeated({ instance_id, event_type, metadata = {} }: NewEvent, now: number): boolean {
    const call = this.#agents.get(instance_id!)?.calls.get(callIdOf(metadata)!)
    if (!call || Math.abs(now - call.at) > keptMs) return false
    const tool = toolOf(metadata)?.toLowerCase()
    const isSameTool = call.tool === tool || (tool === anyServerTool && call.tool.startsWith('mcp__'))
    // A call that a client denied is one that failed.
    const isSameKind = call.types.has(event_type) || (metadata.ok === false && call.types.has(eventTypes.toolBlocked))
    // Arguments that the client did not show must not be hidden by its report.
    const isSameContent = metadata.params === undefined || call.shown === digest(metadata)
    return isSameTool && isSameKind && isSameContent
  }

  /** Reads the calls of an agent from before. What comes meanwhile is heard. */
  #open(id: string): Promise<void> {
    const known = this.#agents.get(id)
    if (known) {
      this.#agents.delete(id)
      this.#agents.set(id, known)
      return known.loaded
    }
    const agent: Agent = { calls: new Map(), isAwaited: false, loaded: Promise.resolve() }
    this.#agents.set(id, agent)
    agent.loaded = this.#load(id, agent).catch((fault) => {
      this.#forget(id)
      throw fault
    })
    return agent.loaded
  }

  async #load(id: string, agent: Agent): Promise<void> {
    const { database, clock } = this.#deps
    const range = { since: clock.now() - keptMs, limit: maxRead }
    const [rows, heardBy] = await Promise.all([
      database.scan('witnesses', (db) => readLatestEvents(db, id, range)),
      readWitnesses(database.db, [id], range.since),
    ])
    // Its first call may come now; a hook reports each one before it runs.
    agent.isAwaited ||= heardBy.some(({ witness }) => witness === 'sdk')
    for (const row of rows.toReversed()) this.#add(id, agent, row)
  }

  #hear(row: EventFields): false {
    const agent = row.instance_id === null ? undefined : this.#agents.get(row.instance_id)
    if (agent) this.#add(row.instance_id!, agent, row)
    return false
  }

  #add(agentId: string, agent: Agent, row: EventFields): void {
    const { calls } = agent
    const { by_service, source, event_type, metadata: text, created_at } = row
    if (by_service === 1 || source === telemetrySource || !callTypes.includes(event_type) || text === null) return
    const metadata = JSON.parse(text) as Metadata
    const [id, tool] = [callIdOf(metadata), toolOf(metadata)]
    if (id === undefined || tool === null) return
    agent.isAwaited = true
    const known = calls.get(id)
    if (known) {
      known.types.add(event_type)
      return
    }
    const types = new Set([event_type])
    calls.set(id, { at: created_at, tool: tool.toLowerCase(), types, shown: digest(metadata) })
    this.#count += 1
    if (calls.size > maxOfAgent) {
      calls.delete(calls.keys().next().value!)
      this.#count -= 1
    }
    while (this.#count > maxCalls) this.#forget(this.#agents.keys().next().value!)
    const name = `${agentId} ${id}`
    const waiting = this.#wanted.get(name)
    this.#wanted.delete(name)
    for (const found of waiting ?? []) found(name)
  }

  #forget(id: string): void {
    this.#count -= this.#agents.get(id)?.calls.size ?? 0
    this.#agents.delete(id)
  }
}
