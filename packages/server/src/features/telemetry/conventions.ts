import { eventTypes } from '@wardline/contract'
import { type TelemetryContent, telemetryContents } from '../../config/telemetry.ts'
import { type Attributes, maxText, type TelemetryRecord, type WantedKeys } from './records.ts'

type Meaning =
  | 'instance'
  | 'service'
  | 'host'
  | 'operation'
  | 'kind'
  | 'tool'
  | 'call'
  | 'session'
  | 'model'
  | 'inputTokens'
  | 'outputTokens'
  | 'cost'
  | 'duration'
  | 'success'
  | 'decision'
  | 'event'
  | 'eventKind'
  | 'finish'
  | 'guard'
  | 'request'
  | 'status'
  | 'isHop'
  | 'category'
  | 'fromMode'
  | 'toMode'
  | 'trigger'
  | 'server'
  | 'serverScope'
  | 'transport'
  | TelemetryContent

/**
 * The keys that are read, by meaning; of several the first one counts. Conventions for agents still change, so that older
 * names stay. The last column is where a key was read: in the conventions, the package or what the program of this version
 * sent.
 */
const table: readonly (readonly [Meaning, key: string, source: string])[] = [
  ['instance', 'wardline.instance.id', 'Wardline'],
  ['instance', 'gen_ai.main_agent.id', 'GenAI conventions 0.1.0, resource'],
  ['instance', 'service.instance.id', 'semantic conventions 1.45, resource'],
  ['service', 'service.name', 'semantic conventions 1.45, resource'],
  ['host', 'host.name', 'semantic conventions 1.45, resource'],
  ['operation', 'gen_ai.operation.name', 'GenAI conventions 0.1.0'],
  ['operation', 'ai.operationId', 'AI SDK 5 and 6'],
  ['operation', 'mcp.method.name', 'MCP conventions 0.1.0'],
  ['kind', 'openinference.span.kind', 'OpenInference 2.12'],
  ['kind', 'traceloop.span.kind', 'OpenLLMetry 0.27'],
  ['tool', 'gen_ai.tool.name', 'GenAI conventions 0.1.0'],
  ['tool', 'tool.name', 'OpenInference 2.12'],
  ['tool', 'ai.toolCall.name', 'AI SDK 5 and 6'],
  ['tool', 'tool_name', 'Claude Code 2.1, Codex 0.171'],
  ['tool', 'traceloop.entity.name', 'OpenLLMetry 0.27'],
  ['call', 'gen_ai.tool.call.id', 'GenAI conventions 0.1.0'],
  ['call', 'ai.toolCall.id', 'AI SDK 5 and 6'],
  ['call', 'tool_call.id', 'OpenInference 2.12'],
  ['call', 'tool_use_id', 'Claude Code 2.1'],
  ['call', 'call_id', 'Codex 0.171'],
  ['session', 'gen_ai.conversation.id', 'GenAI conventions 0.1.0'],
  ['session', 'session.id', 'OpenInference 2.12, Claude Code 2.1'],
  ['session', 'conversation.id', 'Codex 0.171'],
  ['session', 'langsmith.metadata.thread_id', 'LangSmith'],
  ['model', 'gen_ai.response.model', 'GenAI conventions 0.1.0'],
  ['model', 'gen_ai.request.model', 'GenAI conventions 0.1.0'],
  ['model', 'llm.model_name', 'OpenInference 2.12'],
  ['model', 'model', 'Claude Code 2.1, Codex 0.171'],
  ['inputTokens', 'gen_ai.usage.input_tokens', 'GenAI conventions 0.1.0'],
  ['inputTokens', 'gen_ai.usage.prompt_tokens', 'semantic conventions before 1.27'],
  ['inputTokens', 'llm.token_count.prompt', 'OpenInference 2.12'],
  ['inputTokens', 'input_tokens', 'Claude Code 2.1'],
  ['inputTokens', 'input_token_count', 'Codex 0.171'],
  ['outputTokens', 'gen_ai.usage.output_tokens', 'GenAI conventions 0.1.0'],
  ['outputTokens', 'gen_ai.usage.completion_tokens', 'semantic conventions before 1.27'],
  ['outputTokens', 'llm.token_count.completion', 'OpenInference 2.12'],
  ['outputTokens', 'output_tokens', 'Claude Code 2.1'],
  ['outputTokens', 'output_token_count', 'Codex 0.171'],
  ['cost', 'llm.cost.total', 'OpenInference 2.12'],
  ['cost', 'cost_usd', 'Claude Code 2.1'],
  ['duration', 'duration_ms', 'Claude Code 2.1, Codex 0.171'],
  ['success', 'success', 'Claude Code 2.1, Codex 0.171'],
  ['decision', 'decision', 'Claude Code 2.1, Codex 0.171'],
  ['event', 'event.name', 'Claude Code 2.1, Codex 0.171'],
  ['eventKind', 'event.kind', 'Codex 0.171'],
  ['finish', 'gen_ai.response.finish_reasons', 'GenAI conventions 0.1.0, OpenLLMetry 0.27: a list'],
  ['finish', 'llm.finish_reason', 'OpenInference 2.12'],
  ['finish', 'ai.response.finishReason', 'AI SDK 5 and 6'],
  ['guard', 'gen_ai.guardrail.status', 'OpenLLMetry 0.27'],
  ['request', 'request_id', 'Claude Code 2.1'],
  ['status', 'status_code', 'Claude Code 2.1'],
  ['status', 'http.response.status_code', 'Codex 0.171'],
  ['status', 'status', 'Claude Code 2.1: of a connection'],
  ['isHop', 'server_fallback_hop', 'Claude Code 2.1'],
  ['category', 'category', 'Claude Code 2.1'],
  ['fromMode', 'from_mode', 'Claude Code 2.1'],
  ['toMode', 'to_mode', 'Claude Code 2.1'],
  ['trigger', 'trigger', 'Claude Code 2.1'],
  ['server', 'server_name', 'Claude Code 2.1'],
  ['serverScope', 'server_scope', 'Claude Code 2.1'],
  ['transport', 'transport_type', 'Claude Code 2.1'],
  ['arguments', 'gen_ai.tool.call.arguments', 'GenAI conventions 0.1.0'],
  ['arguments', 'ai.toolCall.args', 'AI SDK 5 and 6'],
  ['arguments', 'tool_input', 'Claude Code 2.1 with OTEL_LOG_TOOL_DETAILS'],
  ['arguments', 'tool_parameters', 'Claude Code 2.1 with OTEL_LOG_TOOL_DETAILS, of a denied call'],
  ['arguments', 'arguments', 'Codex 0.171'],
  ['arguments', 'input.value', 'OpenInference 2.12'],
  ['arguments', 'traceloop.entity.input', 'OpenLLMetry 0.27'],
  ['results', 'gen_ai.tool.call.result', 'GenAI conventions 0.1.0'],
  ['results', 'ai.toolCall.result', 'AI SDK 5 and 6'],
  ['results', 'output', 'Codex 0.171'],
  ['results', 'output.value', 'OpenInference 2.12'],
  ['results', 'traceloop.entity.output', 'OpenLLMetry 0.27'],
]

const keysOf = new Map<Meaning, string[]>()
for (const [meaning, key] of table) keysOf.set(meaning, [...(keysOf.get(meaning) ?? []), key])

const contents: ReadonlySet<Meaning> = new Set(telemetryContents)
/** Of arguments and results, in characters: more than coding agents send, and what is redacted in about a millisecond. */
const maxContent = 16 * 1024

/** Returns the keys that are read. Content is among them only as far as it is switched on. */
export function wantedKeys(content: readonly TelemetryContent[]): WantedKeys {
  const read = table.filter(([meaning]) => !contents.has(meaning) || content.some((one) => one === meaning))
  return new Map(read.map(([meaning, key]) => [key, contents.has(meaning) ? maxContent : maxText]))
}

type Value = string | number | boolean

/** Returns the first value of a meaning. */
function firstOf(meaning: Meaning, ...from: readonly Attributes[]): Value | undefined {
  for (const attributes of from)
    for (const key of keysOf.get(meaning)!) if (attributes.has(key)) return attributes.get(key)
  return undefined
}

function textOf(meaning: Meaning, ...from: readonly Attributes[]): string | undefined {
  const value = firstOf(meaning, ...from)
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** More is no count, but a mistake or an attack. */
const maxNumber = 1e12

function numberOf(meaning: Meaning, attributes: Attributes): number | undefined {
  const value = firstOf(meaning, attributes)
  // Codex sends numbers as texts.
  const number = typeof value === 'string' && value !== '' ? Number(value) : value
  return typeof number === 'number' && number >= 0 && number <= maxNumber ? number : undefined
}

/** Ids that a resource proposes for its agent, the best one first. */
export function proposedIds(resource: Attributes): { own: string | undefined; others: string[] } {
  const [own, ...others] = keysOf.get('instance')!.map((key) => resource.get(key))
  const service = textOf('service', resource)
  const place = [service, textOf('host', resource)].filter((part) => part !== undefined).join('-')
  const isText = (id: Value | undefined): id is string => typeof id === 'string' && id !== ''
  return { own: isText(own) ? own : undefined, others: [...others, service ? place : undefined].filter(isText) }
}

/** What a record says about an agent. */
export type Observation = {
  sessionId: string | undefined
  /** Names the call or answer within its trace or session, so that it is counted once. */
  id: string
} & (
  | {
      is: 'tool'
      tool: string
      callId: string | undefined
      isDenied: boolean
      ok: boolean | undefined
      ms: number | undefined
      /** Only what is switched on. */
      content: Partial<Record<TelemetryContent, string>>
    }
  | {
      is: 'model'
      model: string | undefined
      inputTokens: number | undefined
      outputTokens: number | undefined
      cost: number | undefined
    }
  | Notice
)

/** A refusal, an error or a change of the agent's settings. */
interface Notice {
  is: 'notice'
  type: string
  severity: 'info' | 'warning'
  description: string
  metadata: Record<string, Value | undefined>
}

const modelOperations = new Set(['chat', 'text_completion', 'generate_content', 'embeddings'])
/** Of AI SDK 5 and 6: the spans around them have the same tokens again. */
const innerOperation = /\.(doGenerate|doStream|doEmbed)$/
const modelKinds = new Set(['llm', 'embedding'])
/** Finish reasons of a model that refused, or whose provider held its answer back, in the spellings of providers. */
const refusals = /^(content[-_]filter(ed)?|refusal|safety|blocklist|prohibited_content|guardrail_intervened)$/i
/**
 * Claude Code sends each call and answer as a log record, with its cost. Its spans (beta) say the same again, and there is
 * one also for a call that was denied.
 */
const spanOfClaude = /^claude_code\./

/** Names of log records, without the prefix of the program. */
const logNames = {
  toolResult: 'tool_result',
  toolDecision: 'tool_decision',
  modelRequest: 'api_request',
  modelError: 'api_error',
  modelRefusal: 'api_refusal',
  modeChange: 'permission_mode_changed',
  toolServer: 'mcp_server_connection',
  /** Codex counts tokens when an answer is complete. */
  modelAnswer: 'sse_event',
} as const
const answerIsComplete = 'response.completed'
/** Claude Code and Codex, in this order. */
const denials = new Set(['reject', 'denied', 'abort', 'denied_and_abort'])
/** The mode of Claude Code in which no call waits for a person. */
const modeWithoutQuestions = 'bypassPermissions'
const firstFailure = 400

type What = 'tool' | 'denial' | 'model' | Notice

const notice = (
  severity: Notice['severity'],
  type: string,
  description: string,
  metadata: Notice['metadata'] = {},
): Notice => ({ is: 'notice', type, severity, description, metadata })

function whatSpan({ name, attributes, isError }: TelemetryRecord): What[] {
  if (spanOfClaude.test(name)) return []
  const operation = textOf('operation', attributes)
  const kind = textOf('kind', attributes)?.toLowerCase()
  if (kind === 'tool' || operation?.startsWith('execute_tool') || operation === 'tools/call') return ['tool']
  if (operation === 'ai.toolCall' || attributes.has('gen_ai.tool.name')) return ['tool']
  const guard = textOf('guard', attributes)
  if (kind === 'guardrail' || guard !== undefined) {
    // OpenInference has no key for the verdict of a guardrail: one that stops a call throws.
    const isViolated = guard === undefined ? isError : /^fail/i.test(guard)
    return isViolated ? [notice('warning', eventTypes.policyViolation, 'A guardrail of the agent failed')] : []
  }
  const isModel =
    kind !== undefined
      ? modelKinds.has(kind)
      : operation === undefined
        ? innerOperation.test(name)
        : modelOperations.has(operation) || innerOperation.test(operation)
  if (!isModel) return []
  const finish = textOf('finish', attributes)
    ?.split(',')
    .find((reason) => refusals.test(reason))
  const refused = finish === undefined ? [] : [refusal({ reason: finish, model: textOf('model', attributes) })]
  return ['model', ...refused]
}

const refusal = (metadata: Notice['metadata']): Notice =>
  notice('warning', eventTypes.modelRefused, 'A model refused to answer', metadata)

function whatLog({ name, attributes }: TelemetryRecord): What | undefined {
  const event = (textOf('event', attributes) ?? name).replace(/^(claude_code|codex)\./, '')
  const isDenied = denials.has(textOf('decision', attributes) ?? '')
  const model = textOf('model', attributes)
  const status = firstOf('status', attributes)
  switch (event) {
    case logNames.toolResult:
      return isDenied ? 'denial' : 'tool'
    case logNames.toolDecision:
      return isDenied ? 'denial' : undefined
    case logNames.modelAnswer:
      return textOf('eventKind', attributes) === answerIsComplete ? 'model' : undefined
    case logNames.modelRequest:
      return Number(status) >= firstFailure ? failure({ model, status }) : 'model'
    case logNames.modelError:
      return failure({ model, status })
    case logNames.modelRefusal:
      // Another model of the provider answered in its place.
      if (String(firstOf('isHop', attributes)) === 'true') return undefined
      return refusal({ model, reason: textOf('category', attributes) })
    case logNames.modeChange: {
      const [from, to] = [textOf('fromMode', attributes), textOf('toMode', attributes)]
      const severity = to === modeWithoutQuestions ? 'warning' : 'info'
      const description = `The permission mode is now ${to ?? 'another'}`
      const metadata = { from_mode: from, to_mode: to, trigger: textOf('trigger', attributes) }
      return notice(severity, eventTypes.permissionModeChanged, description, metadata)
    }
    case logNames.toolServer: {
      const server = textOf('server', attributes)
      const metadata = {
        status,
        server,
        scope: textOf('serverScope', attributes),
        transport: textOf('transport', attributes),
      }
      const description = `Tool server ${server ?? 'without a name'}: ${status ?? 'status unknown'}`
      return notice('info', eventTypes.toolServerConnection, description, metadata)
    }
    default:
      return undefined
  }
}

const failure = (metadata: Notice['metadata']): Notice =>
  notice('info', eventTypes.modelFailed, 'A call of a model failed', metadata)

function isOk({ isError, attributes }: TelemetryRecord, isLog: boolean): boolean | undefined {
  if (!isLog) return !isError
  const success = firstOf('success', attributes)
  return success === undefined ? undefined : String(success) === 'true'
}

/** Returns what a span or log record says about an agent; nothing if it says nothing of interest. */
export function observationsOf(
  record: TelemetryRecord,
  resource: Attributes,
  signal: 'traces' | 'logs',
): Observation[] {
  const isLog = signal === 'logs'
  const what = isLog ? [whatLog(record)] : whatSpan(record)
  return what.flatMap((one) => (one === undefined ? [] : (observation(one, record, resource, isLog) ?? [])))
}

function observation(
  what: What,
  record: TelemetryRecord,
  resource: Attributes,
  isLog: boolean,
): Observation | undefined {
  const { attributes, traceId, spanId, at, startedAt } = record
  const sessionId = textOf('session', attributes, resource)
  const callId = textOf('call', attributes)
  const idOf = (...parts: unknown[]) =>
    isLog ? `log ${sessionId ?? traceId} ${at} ${parts.join(' ')}` : `span ${traceId} ${spanId}`
  if (typeof what === 'object') {
    const { request, server } = { request: textOf('request', attributes), server: what.metadata.server }
    return { ...what, sessionId, id: request === undefined ? idOf(server) : `request ${request}` }
  }
  if (what === 'model') {
    const [inputTokens, outputTokens] = [numberOf('inputTokens', attributes), numberOf('outputTokens', attributes)]
    const cost = numberOf('cost', attributes)
    if (inputTokens === undefined && outputTokens === undefined && cost === undefined) return undefined
    const id = idOf(inputTokens, outputTokens)
    return { is: 'model', sessionId, id, model: textOf('model', attributes), inputTokens, outputTokens, cost }
  }
  const tool = textOf('tool', attributes)
  if (tool === undefined) return undefined
  const ms = isLog ? numberOf('duration', attributes) : startedAt > 0 && at >= startedAt ? at - startedAt : undefined
  return {
    ...{ is: 'tool', sessionId, tool, callId, isDenied: what === 'denial', ok: isOk(record, isLog), ms },
    content: { arguments: textOf('arguments', attributes), results: textOf('results', attributes) },
    id: callId === undefined ? idOf(tool) : `call ${callId}`,
  }
}
