/** Event bodies like those of agents: mostly tool calls, some warnings, few critical events. */
export type EventBody = {
  severity: string
  source: string
  event_type: string
  instance_id: string
  session_id: string
  metadata: Record<string, string | number>
  description: string
}

const toolNames = ['web-search', 'file-read', 'http-request', 'shell-exec', 'email-send', 'code-exec'] as const

const instanceCount = 100
/** Number of events per session. */
const eventsPerSession = 1_000

/**
 * Returns the n-th event of an endless, repeatable sequence; its JSON has `bytes` bytes (at least 290). Instances
 * alternate, and each has one session at a time.
 */
export function eventBody(n: number, bytes: number): EventBody {
  const severity = n % 64 === 63 ? 'critical' : n % 16 === 15 ? 'warning' : 'info'
  const instance = n % instanceCount
  const session = Math.floor(n / instanceCount / eventsPerSession) * instanceCount + instance
  const body: EventBody = {
    severity,
    source: 'bench-agent',
    event_type: severity === 'info' ? 'tool_call' : severity === 'warning' ? 'policy_violation' : 'egress_blocked',
    instance_id: instanceId(instance),
    session_id: `${String(session).padStart(8, '0')}-7a1c-4b3e-9d2f-0c6a8e4b1d35`,
    metadata: { toolName: toolNames[n % toolNames.length]!, duration_ms: 100 + (n % 900), host: 'api.example.com' },
    description: '',
  }
  const sentence = 'Tool finished; the reply was handed to the model and its size was within the usual range. '
  const missing = bytes - JSON.stringify(body).length
  if (missing < 1) throw new RangeError(`An event of ${bytes} bytes is too small.`)
  body.description = sentence.repeat(Math.ceil(missing / sentence.length)).slice(0, missing)
  return body
}

/** Ids of the 100 instances that all parts use. */
export function instanceId(n: number): string {
  return `bench-agent-${String(n).padStart(3, '0')}`
}
