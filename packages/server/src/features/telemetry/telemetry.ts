import { createHash } from 'node:crypto'
import { eventTypes, isTraceId, limits, type NewEvent, observedAgentType, telemetrySource } from '@wardline/contract'
import { redactedText, toolCallEvent } from '@wardline/sdk/events'
import { onlyName } from '@wardline/text'
import type { Deps } from '../../deps.ts'
import { mayActFor, type Principal } from '../../http/auth.ts'
import { workLane } from '../../work-turns.ts'
import type { Events, KeyedReports } from '../events/events.ts'
import { ObservedAgents, type ObservedParts } from '../instances/observed-agents.ts'
import { type Observation, observationsOf, proposedIds, wantedKeys } from './conventions.ts'
import { readJson } from './otlp-json.ts'
import { readProtobuf } from './protobuf.ts'
import {
  type Attributes,
  maxRecords,
  type Signal,
  type TelemetryRecord,
  tooMany,
  type Visitor,
  type WantedKeys,
} from './records.ts'

/** Names of spans that are remembered: about 200 bytes each. */
const maxCounted = 20_000
/** Requests of one key that are read at a time: each holds a body. */
const maxRequests = 4
/** Tokens and costs that are judged and stored together: one by one, each would wait for the one before. */
const groupReports = 200
/** Cost of mapping a record, and of a character of content, which is searched for secrets, paths and hosts. */
const unitsOfRecord = 3_000
const unitsOfContent = 50

interface Parts extends ObservedParts {
  events: Pick<Events, 'reportGroups'>
  clientCalls: { findRepeated(reports: readonly NewEvent[]): Promise<ReadonlySet<NewEvent>> }
}

export interface TelemetryRequest {
  signal: Signal
  body: Buffer
  isJson: boolean
  principal: Principal
  address: string | null
  /** Receives the agents of which it is. */
  named: Set<string>
}

/** How many records were refused, and why. */
export interface Refused {
  count: number
  reason: string
}

/** Turns any text into an instance id; '' if nothing of it can be one. */
const slug = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, limits.instanceId)

/** Returns the agent that a resource describes, or the reason for refusing what follows it. */
function agentOf(principal: Principal, resource: Attributes): { id: string } | { reason: string } {
  const bound = onlyName(principal.instances ?? [])
  if (bound !== undefined) return { id: bound }
  const { own, others } = proposedIds(resource)
  // What an operator configured is not replaced by another proposal.
  const ids = (own === undefined ? others : [own]).map(slug).filter((id) => id !== '')
  if (ids.length === 0) return { reason: 'The resource names no agent: set its attribute wardline.instance.id.' }
  const id = ids.find((proposed) => mayActFor(principal, proposed))
  return id === undefined ? { reason: `The key may not act for ${ids[0]}: it is bound to other agents.` } : { id }
}

const lengthOf = (content: Record<string, string | undefined>): number =>
  Object.values(content).reduce((sum, text) => sum + (text?.length ?? 0), 0)

const withoutUndefined = (fields: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

/** Of a result, in characters, so that the event has room for it whatever its characters are. */
const maxResult = 500

/** Returns arguments as they were before they were a text, which they stay if they are cut. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/**
 * Returns what the content of a call adds to its event, without secrets: as an SDK reports it, so that rules and decoys
 * find paths, hosts and commands of both.
 */
function fieldsOf({ tool, content }: Observation & { is: 'tool' }, instanceId: string): Record<string, unknown> {
  const { arguments: args, results } = content
  const params = args === undefined ? undefined : parsed(args)
  const result = results && { result: { length: results.length, text: redactedText(results, maxResult) } }
  const event = params === undefined ? undefined : toolCallEvent({ toolName: tool, params }, instanceId)
  return { ...(typeof event === 'object' ? event.metadata : {}), ...result }
}

/** Builds the event of an observation. */
function eventOf(instanceId: string, observed: Observation, traceId: string): NewEvent {
  const common = { source: telemetrySource, instance_id: instanceId }
  const session = observed.sessionId === undefined ? {} : { session_id: observed.sessionId.slice(0, limits.sessionId) }
  const witness = { via: 'otlp', trace_id: isTraceId(traceId) ? traceId : undefined }
  if (observed.is === 'model') {
    const { inputTokens, outputTokens, cost, model } = observed
    const metrics = withoutUndefined({ input_tokens: inputTokens, output_tokens: outputTokens, cost_usd: cost })
    const metadata = withoutUndefined({ ...witness, model })
    return {
      ...common,
      ...session,
      severity: 'info',
      event_type: eventTypes.sessionMetrics,
      description: JSON.stringify(metrics),
      metadata,
    }
  }
  if (observed.is === 'notice') {
    const { type, severity, description, metadata } = observed
    const said = { severity, event_type: type, description: description.slice(0, limits.description) }
    return { ...common, ...session, ...said, metadata: withoutUndefined({ ...witness, ...metadata }) }
  }
  const { tool, callId, isDenied, ok, ms } = observed
  const duration = ms === undefined ? undefined : Math.round(ms)
  return {
    ...{ ...common, ...session },
    severity: 'info',
    event_type: isDenied ? eventTypes.toolBlocked : eventTypes.toolCall,
    description: `${isDenied ? 'Denied' : 'Called'} the tool ${tool}`.slice(0, limits.description),
    metadata: withoutUndefined({
      ...fieldsOf(observed, instanceId),
      ...{ ...witness, toolName: tool, callId },
      ...(isDenied ? { durationMs: undefined, ok: undefined } : { durationMs: duration, ok }),
    }),
  }
}

/** Takes OTLP/HTTP in: batches are heartbeats, tool calls and tokens become events of the agent, as it would report them. */
export class Telemetry {
  readonly #parts: Parts
  readonly #observed: ObservedAgents
  readonly #wanted: WantedKeys
  /** The tools of spans that were counted, by the name of the span or of its parent. The oldest one first. */
  readonly #counted = new Map<string, string>()

  constructor(deps: Deps, parts: Parts) {
    this.#parts = parts
    this.#observed = new ObservedAgents(deps, parts, { witness: 'otlp', agentType: observedAgentType })
    this.#wanted = wantedKeys(deps.config.telemetryContent)
  }

  /** Resolves once everything is on disk. Rejects with AppError; the same request may then be sent again. */
  async take(request: TelemetryRequest): Promise<Refused> {
    const { signal, isJson, principal, address, body, named: agents } = request
    const refused: Refused = { count: 0, reason: '' }
    const refuse = (count: number, reason: string) => {
      refused.count += count
      refused.reason ||= reason
    }
    /** Records by agent, to count those of agents that are not registered. */
    const points = new Map<string, number>()
    const calls: NamedReport[] = []
    const measured: NamedReport[] = []
    const counted = new Map<string, string>()
    let agent: ReturnType<typeof agentOf> = { reason: '' }
    let resource: Attributes = new Map()
    let records = 0
    const piece = workLane.open(`telemetry of ${principal.keyId}`, { max: maxRequests })
    const budget = piece.budget(Number.MAX_SAFE_INTEGER)
    const visitor: Visitor = {
      wanted: this.#wanted,
      resource: (attributes) => {
        resource = attributes
        agent = agentOf(principal, attributes)
        if ('id' in agent) agents.add(agent.id)
      },
      refuse: () => refuse(1, 'A record has more than 256 KiB: do not record content, or send protobuf.'),
      record: (record) => {
        budget.count(unitsOfRecord)
        if (++records > maxRecords) throw tooMany
        if ('reason' in agent) return refuse(record.points, agent.reason)
        points.set(agent.id, (points.get(agent.id) ?? 0) + record.points)
        for (const observed of signal === 'metrics' ? [] : observationsOf(record, resource, signal)) {
          if (this.#isCounted(agent.id, record, observed, counted)) continue
          if (observed.is === 'tool') budget.count(unitsOfContent * lengthOf(observed.content))
          const report = eventOf(agent.id, observed, record.traceId)
          const name = `${agent.id} ${report.event_type} ${observed.id}`
          const named = { report, name }
          if (observed.is === 'model') measured.push(named)
          else calls.push(named)
        }
      },
    }
    await piece.inTurns((isJson ? readJson : readProtobuf)(signal, body, visitor, budget)).finally(() => piece.end())
    const said = await this.#observed.sayAlive(agents, principal, address)
    for (const [id, fault] of said.refused) if (points.has(id)) refuse(points.get(id)!, fault.message)
    const isKept = ({ report }: NamedReport) => !said.refused.has(report.instance_id!)
    const kept = calls.filter(isKept)
    const repeated = await this.#parts.clientCalls.findRepeated(kept.map(({ report }) => report))
    const single = kept.map(({ report, name }) => {
      return { reports: [report], idempotencyKey: keyOf([name]), isSecond: repeated.has(report) }
    })
    await this.#parts.events.reportGroups([...single, ...groupsOf(measured.filter(isKept))], { principal, address })
    this.#remember(counted)
    return refused
  }

  /**
   * Whether a call was counted already by another span around it or within it, as instrumented clients of tool servers
   * send one for each side. `counted`: those of this request.
   */
  #isCounted(
    agent: string,
    { traceId, spanId, parentId }: TelemetryRecord,
    observed: Observation,
    counted: Map<string, string>,
  ): boolean {
    if (observed.is !== 'tool' || spanId === '') return false
    const [own, parent] = [`${agent} ${traceId} ${spanId}`, `${agent} ${traceId} ${parentId}`]
    const isSame = (name: string) => (counted.get(name) ?? this.#counted.get(name)) === observed.tool
    const isCounted = isSame(parent) || isSame(`around ${own}`)
    counted.set(own, observed.tool)
    if (parentId !== '') counted.set(`around ${parent}`, observed.tool)
    return isCounted
  }

  #remember(counted: ReadonlyMap<string, string>): void {
    for (const [name, tool] of counted) {
      if (this.#counted.size >= maxCounted) this.#counted.delete(this.#counted.keys().next().value!)
      this.#counted.set(name, tool)
    }
  }
}

/** A report, and its name: the same for each time that it is sent. */
interface NamedReport {
  report: NewEvent
  name: string
}

/** Exporters repeat a request as it was, so its reports have one name together. */
function groupsOf(reports: readonly NamedReport[]): KeyedReports[] {
  const groups: KeyedReports[] = []
  for (let start = 0; start < reports.length; start += groupReports) {
    const group = reports.slice(start, start + groupReports)
    groups.push({ reports: group.map(({ report }) => report), idempotencyKey: keyOf(group.map(({ name }) => name)) })
  }
  return groups
}

const keyOf = (names: readonly string[]): string =>
  `otlp ${createHash('sha256').update(names.join('\n')).digest('base64url')}`
