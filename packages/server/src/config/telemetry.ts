import { refuse, setting, someOf } from './values.ts'

export const telemetryContents = ['arguments', 'results'] as const
export type TelemetryContent = (typeof telemetryContents)[number]

const placeOfId = '{trace_id}'

/** Returns a template of an address whose id of a trace is the only thing to fill in. */
function traceUrl(value: string): string {
  const filled = value.replace(placeOfId, 'a'.repeat(32))
  const url = URL.canParse(filled) ? new URL(filled) : undefined
  if (!url || !['http:', 'https:'].includes(url.protocol)) return refuse('must be an http or https URL')
  if (url.username || url.password) return refuse('must have no user or password')
  if (value.split(placeOfId).length !== 2 || /[{}]/.test(filled))
    return refuse(`must contain ${placeOfId} once, and no other braces`)
  // The host must be that of the operator, whatever the id is.
  if (url.host.includes('a'.repeat(32))) return refuse(`must have ${placeOfId} in its path, query or fragment`)
  return value
}

/** What is done with OpenTelemetry of agents. */
export const telemetrySettings = {
  telemetryContent: setting({
    env: 'WARDLINE_TELEMETRY_CONTENT',
    unset: 'none',
    meaning:
      'Content of tool calls that is read from [telemetry](../guide/telemetry.md#content), without secrets: `arguments`, `results`, or both separated by a comma. Prompts and answers are never read',
    parse: (value) => (value === 'none' ? [] : someOf(telemetryContents)(value)),
  }),
  traceUrl: setting({
    env: 'WARDLINE_TRACE_URL',
    unset: undefined,
    meaning:
      'Address of a trace in your tracing tool, with `{trace_id}` for its id, such as `https://traces.example.com/trace/{trace_id}`: events made from telemetry link to it. Default: no links',
    parse: traceUrl,
  }),
}
