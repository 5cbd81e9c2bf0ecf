import { createHash } from 'node:crypto'
import { eventTypes, type NewEvent, telemetrySource, toolOf } from '@wardline/contract'
import { hourMs } from '../../clock.ts'
import type { EventFields } from '../../db/schema/events.ts'
import type { Deps } from '../../deps.ts'
import type { LogFollower } from '../events/log-follower.ts'
import { readLatestEvents } from '../events/log-statements.ts'

/** Calls that are remembered: some 250 bytes each. */
const maxCalls = 100_000
/** Of one agent, and events that are read of it at first: of its telemetry some more. */
const maxOfAgent = 256
const maxRead = 1_000
/** Telemetry that comes later than this is of another call. */
const keptMs = hourMs
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
  loaded: Promise<void>
}

const callTypes: readonly string[] = [eventTypes.toolCall, eventTypes.toolBlocked]

const callIdOf = ({ callId }: Metadata): string | undefined =>
  typeof callId === 'string' && callId !== '' ? callId.slice(0, 200) : undefined

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
    const now = this.#deps.clock.now()
    return new Set(named.filter((report) => this.#isRepeated(report, now)))
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
    const agent: Agent = { calls: new Map(), loaded: Promise.resolve() }
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
    const rows = await database.scan('witnesses', (db) => readLatestEvents(db, id, range))
    for (const row of rows.toReversed()) this.#add(agent, row)
  }

  #hear(row: EventFields): false {
    const agent = row.instance_id === null ? undefined : this.#agents.get(row.instance_id)
    if (agent) this.#add(agent, row)
    return false
  }

  #add({ calls }: Agent, { by_service, source, event_type, metadata: text, created_at }: EventFields): void {
    if (by_service === 1 || source === telemetrySource || !callTypes.includes(event_type) || text === null) return
    const metadata = JSON.parse(text) as Metadata
    const [id, tool] = [callIdOf(metadata), toolOf(metadata)]
    if (id === undefined || tool === null) return
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
  }

  #forget(id: string): void {
    this.#count -= this.#agents.get(id)?.calls.size ?? 0
    this.#agents.delete(id)
  }
}
