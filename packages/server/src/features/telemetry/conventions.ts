import type { Attributes, TelemetryRecord } from './records.ts'

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

/**
 * The keys that are read, by meaning; of several the first one counts. Conventions for agents still change, so that older
 * names stay. The last column is where a key was read.
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
  ['tool', 'tool_name', 'Claude Code 2.1, Codex 0.169'],
  ['tool', 'traceloop.entity.name', 'OpenLLMetry 0.27'],
  ['call', 'gen_ai.tool.call.id', 'GenAI conventions 0.1.0'],
  ['call', 'ai.toolCall.id', 'AI SDK 5 and 6'],
  ['call', 'tool_call.id', 'OpenInference 2.12'],
  ['call', 'tool_use_id', 'Claude Code 2.1'],
  ['call', 'call_id', 'Codex 0.169'],
  ['session', 'gen_ai.conversation.id', 'GenAI conventions 0.1.0'],
  ['session', 'session.id', 'OpenInference 2.12, Claude Code 2.1'],
  ['session', 'conversation.id', 'Codex 0.169'],
  ['session', 'langsmith.metadata.thread_id', 'LangSmith'],
  ['model', 'gen_ai.response.model', 'GenAI conventions 0.1.0'],
  ['model', 'gen_ai.request.model', 'GenAI conventions 0.1.0'],
  ['model', 'llm.model_name', 'OpenInference 2.12'],
  ['model', 'model', 'Claude Code 2.1, Codex 0.169'],
  ['inputTokens', 'gen_ai.usage.input_tokens', 'GenAI conventions 0.1.0'],
  ['inputTokens', 'gen_ai.usage.prompt_tokens', 'semantic conventions before 1.27'],
  ['inputTokens', 'llm.token_count.prompt', 'OpenInference 2.12'],
  ['inputTokens', 'input_tokens', 'Claude Code 2.1'],
  ['inputTokens', 'input_token_count', 'Codex 0.169'],
  ['outputTokens', 'gen_ai.usage.output_tokens', 'GenAI conventions 0.1.0'],
  ['outputTokens', 'gen_ai.usage.completion_tokens', 'semantic conventions before 1.27'],
  ['outputTokens', 'llm.token_count.completion', 'OpenInference 2.12'],
  ['outputTokens', 'output_tokens', 'Claude Code 2.1'],
  ['outputTokens', 'output_token_count', 'Codex 0.169'],
  ['cost', 'llm.cost.total', 'OpenInference 2.12'],
  ['cost', 'cost_usd', 'Claude Code 2.1'],
  ['duration', 'duration_ms', 'Claude Code 2.1, Codex 0.169'],
  ['success', 'success', 'Claude Code 2.1, Codex 0.169'],
  ['decision', 'decision', 'Claude Code 2.1, Codex 0.169'],
  ['event', 'event.name', 'Claude Code 2.1, Codex 0.169'],
  ['eventKind', 'event.kind', 'Codex 0.169'],
]

const keysOf = new Map<Meaning, string[]>()
for (const [meaning, key] of table) keysOf.set(meaning, [...(keysOf.get(meaning) ?? []), key])

export const wantedKeys: ReadonlySet<string> = new Set(table.map(([, key]) => key))

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
    }
  | {
      is: 'model'
      model: string | undefined
      inputTokens: number | undefined
      outputTokens: number | undefined
      cost: number | undefined
    }
)

const modelOperations = new Set(['chat', 'text_completion', 'generate_content', 'embeddings'])
/** Of AI SDK 5 and 6: the spans around them have the same tokens again. */
const innerOperation = /\.(doGenerate|doStream|doEmbed)$/
const modelKinds = new Set(['llm', 'embedding'])

/** Names of log records, without the prefix of the program. */
const toolResults = 'tool_result'
const toolDecisions = 'tool_decision'
const modelRequests = 'api_request'
/** Codex counts tokens when an answer is complete. */
const completedAnswer = { name: 'sse_event', kind: 'response.completed' }
/** Claude Code and Codex, in this order. */
const denials = new Set(['reject', 'denied', 'abort', 'denied_and_abort'])

type What = 'tool' | 'denial' | 'model'

function whatSpan({ name, attributes }: TelemetryRecord): What | undefined {
  const operation = textOf('operation', attributes)
  const kind = textOf('kind', attributes)?.toLowerCase()
  if (kind === 'tool' || operation?.startsWith('execute_tool') || operation === 'tools/call') return 'tool'
  if (operation === 'ai.toolCall' || attributes.has('gen_ai.tool.name')) return 'tool'
  if (kind !== undefined && modelKinds.has(kind)) return 'model'
  if (operation !== undefined)
    return modelOperations.has(operation) || innerOperation.test(operation) ? 'model' : undefined
  return innerOperation.test(name) ? 'model' : undefined
}

function whatLog({ name, attributes }: TelemetryRecord): What | undefined {
  const event = (textOf('event', attributes) ?? name).replace(/^(claude_code|codex)\./, '')
  const isDenied = denials.has(textOf('decision', attributes) ?? '')
  if (event === toolResults) return isDenied ? 'denial' : 'tool'
  if (event === toolDecisions) return isDenied ? 'denial' : undefined
  const isAnswer = event === completedAnswer.name && textOf('eventKind', attributes) === completedAnswer.kind
  return event === modelRequests || isAnswer ? 'model' : undefined
}

function isOk({ isError, attributes }: TelemetryRecord, isLog: boolean): boolean | undefined {
  if (!isLog) return !isError
  const success = firstOf('success', attributes)
  return success === undefined ? undefined : String(success) === 'true'
}

/** Returns what a span or log record says about an agent; undefined if it says nothing of interest. */
export function observationOf(
  record: TelemetryRecord,
  resource: Attributes,
  signal: 'traces' | 'logs',
): Observation | undefined {
  const isLog = signal === 'logs'
  const what = isLog ? whatLog(record) : whatSpan(record)
  if (what === undefined) return undefined
  const { attributes, traceId, spanId, at, startedAt } = record
  const sessionId = textOf('session', attributes, resource)
  const callId = textOf('call', attributes)
  const within = sessionId ?? traceId
  if (what === 'model') {
    const [inputTokens, outputTokens] = [numberOf('inputTokens', attributes), numberOf('outputTokens', attributes)]
    const cost = numberOf('cost', attributes)
    if (inputTokens === undefined && outputTokens === undefined && cost === undefined) return undefined
    const id = isLog ? `log ${within} ${at} ${inputTokens} ${outputTokens}` : `span ${traceId} ${spanId}`
    return { is: 'model', sessionId, id, model: textOf('model', attributes), inputTokens, outputTokens, cost }
  }
  const tool = textOf('tool', attributes)
  if (tool === undefined) return undefined
  const place = isLog ? `log ${within} ${at} ${tool}` : `span ${traceId} ${spanId}`
  const ms = isLog ? numberOf('duration', attributes) : startedAt > 0 && at >= startedAt ? at - startedAt : undefined
  return {
    ...{ is: 'tool', sessionId, tool, callId, isDenied: what === 'denial', ok: isOk(record, isLog), ms },
    id: callId === undefined ? place : `call ${callId}`,
  }
}
