import { access, define, type Endpoint } from './endpoint.ts'
import { Count, limits } from './fields.ts'
import { Type } from './type.ts'

/** Type of agents that only their telemetry shows. */
export const observedAgentType = 'otlp'

/** Source of the events made from telemetry. */
export const telemetrySource = 'otlp'

/** Field that the service sets in the metadata of telemetry of a call that a client of the agent reported before. */
export const secondWitness = 'second_witness'

/** Whether a text is the id of a trace (W3C Trace Context): it is the agent's. */
export const isTraceId = (text: unknown): text is string =>
  typeof text === 'string' && /^[0-9a-f]{32}$/.test(text) && !/^0+$/.test(text)

/**
 * Returns the address of an event's trace in the user's tracing tool; null if it has none. `template`: with `{trace_id}` for
 * the id.
 */
export function traceLinkOf(
  template: string | undefined,
  metadata: Readonly<Record<string, unknown>> | null | undefined,
): string | null {
  const id = metadata?.trace_id
  return template !== undefined && isTraceId(id) ? template.replace('{trace_id}', id) : null
}

const rejected = (records: string) =>
  Type.Optional({
    ...Count,
    description: `${records} that name no agent of this key, are too large, or are of an agent beyond the limit of instances`,
  })

const otlp = {
  method: 'POST',
  access: access.agents,
  feature: 'telemetry',
  isOtlp: true,
  rawBody: {
    contentTypes: ['application/x-protobuf', 'application/json'],
    description: `A request of OTLP, at most ${limits.otlpBytes / 1024 / 1024} MiB, with gzip after inflating. The answer has the same form.`,
  },
  headers: {
    authorization: 'Bearer and the key of the agent; or the key in X-Monitor-Key',
    'content-encoding': 'gzip, or absent',
  },
  status: 200,
  reply: Type.Object({
    partialSuccess: Type.Optional(
      Type.Object({
        rejectedSpans: rejected('Spans'),
        rejectedLogRecords: rejected('Log records'),
        rejectedDataPoints: rejected('Data points'),
        errorMessage: Type.String(),
      }),
    ),
  }),
  failures: {
    429: 'A quota of the key is exceeded; retry after Retry-After seconds',
    503: 'Too many requests are being read, or the database is away; retry after Retry-After seconds',
  },
} as const satisfies Omit<Endpoint, 'path' | 'summary'>

export const telemetryEndpoints = {
  sendTraces: define({
    ...otlp,
    path: '/v1/traces',
    summary: 'Take spans in by OTLP/HTTP: tool calls and tokens become events of the agent, each batch is a heartbeat',
  }),
  sendLogs: define({
    ...otlp,
    path: '/v1/logs',
    summary:
      'Take log records in by OTLP/HTTP: those of Claude Code and Codex become events, each batch is a heartbeat',
  }),
  sendMetrics: define({
    ...otlp,
    path: '/v1/metrics',
    summary: 'Take metrics in by OTLP/HTTP: each batch is a heartbeat; their figures are not stored',
  }),
}
