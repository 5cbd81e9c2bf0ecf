/** Who reported a call: a client in the agent (hook or SDK), or its telemetry. */
export type Side = 'client' | 'otlp'

/** Tools that are remembered of one agent or run: an attacker may send any number. */
export const maxTools = 100
/** Calls that arrive together are lost together, so they are one loss. */
const burstMs = 10_000

/** Calls in a row that one side did not report. */
export class LossRun {
  readonly missing: Side
  /** When the first of them was received. */
  readonly since: number
  readonly tools = new Map<string, number>()
  calls = 0
  losses = 0
  /** When the last loss was received. */
  lastAt = Number.NEGATIVE_INFINITY

  constructor(missing: Side, since: number) {
    this.missing = missing
    this.since = since
  }

  lose({ at, tool }: { at: number; tool: string }): void {
    this.calls += 1
    if (this.tools.has(tool) || this.tools.size < maxTools) this.tools.set(tool, (this.tools.get(tool) ?? 0) + 1)
    if (at - this.lastAt < burstMs) return
    this.losses += 1
    this.lastAt = at
  }
}
