import type { Witness } from '@wardline/contract'

/** How screens name by what an agent is heard. */
export const witnessNames: Record<Witness, string> = {
  sdk: 'SDK',
  hook: 'hook',
  mcp: 'MCP proxy',
  supervisor: 'supervisor',
  gateway: 'model gateway',
  otlp: 'telemetry',
}
