import { hourMs, minuteMs } from '../../clock.ts'
import type { TelemetryState } from './collector.ts'
import { LossRun, maxTools, type Side } from './loss-run.ts'

export type { Side } from './loss-run.ts'

/** A tool call as one side reported it. `at`: when the service received it, because clocks of agents differ. */
export interface ReportedCall {
  by: Side
  at: number
  tool: string
  session: string | null
  /** As the model named the call; null if this side does not know it. */
  id: string | null
  isFailed?: boolean
}

/** Calls of an agent that only one side reported. */
export interface Mismatch {
  missing: Side
  /** When the first of them was received. */
  since: number
  /** Calls by tool, at most `maxTools` of them. */
  tools: ReadonlyMap<string, number>
  calls: number
}

/** Calls that are waited for, and sessions that are remembered, of one agent: an attacker may send any number. */
const maxOpen = 64
const maxSessions = 20
/** A call that comes later than this is another one. */
const openMs = hourMs
/**
 * When a call counts as missing. A hook reports before the call, telemetry after it: batches wait up to five seconds in the
 * agent, and are sent again for half a minute. See docs/adr/0089 for the simulation.
 */
export const graceMs: Record<Side, number> = { client: 15_000, otlp: 45_000 }
/** Where telemetry usually comes sooner than this, no collector holds it back, and a missing call is one after this time. */
const promptMs = 15_000
const minPrompt = 0.9
/** Calls by which that is judged, each half of them as much as all before: another exporter or collector shows soon. */
const judgedCalls = 100
/** Losses in a row that are no accident. */
export const minLosses: Record<Side, number> = { client: 3, otlp: 4 }
/** Calls that both sides reported before one can be missed. */
const minMatched: Record<Side, number> = { client: 5, otlp: 20 }
/** Sessions of which telemetry showed a call: of the first ones alone, sampling by trace is not recognized. Or many calls. */
const minSeenSessions = 8
const minSeenCalls = 500
/** A tool that often takes longer than the grace, such as a subagent, says nothing: its telemetry comes any time later. */
const minOfTool = 3
const maxLate = 0.05
/** With sampling, calls of which telemetry shows some are needed, and silence is judged by the longest one so far. */
const minSampled = 50
const sampledBelow = 0.95
const sampledFactor = 4

interface OpenCall extends ReportedCall {
  isCounted: boolean
  /** Lost by a collector, not by the agent. */
  isForgiven?: boolean
}

const other = (side: Side): Side => (side === 'client' ? 'otlp' : 'client')

/**
 * Compares what the two sides report of an agent. Telemetry is missed for the whole agent, because one exporter sends it; a
 * client is missed by session, because each process may have another configuration.
 */
export class CallMatcher {
  readonly #open: Record<Side, OpenCall[]> = { client: [], otlp: [] }
  /** Tools that both sides have reported: others may be beyond the reach of one of them. `late`: after the grace. */
  readonly #shared = new Map<string, { matched: number; late: number }>()
  readonly #runs = new Map<string, LossRun>()
  #matched = 0
  #matchedAt = 0
  /** When the client reported the last call that telemetry showed. */
  #shownAt = 0
  /** Sessions that telemetry showed, by the client's name; at most `minSeenSessions`. */
  readonly #seenSessions = new Set<string>()
  /** Calls that telemetry did not show. */
  #unseen = 0
  /** Of the latest calls that both reported, those whose telemetry came soon. */
  readonly #latest = { calls: 0, prompt: 0 }
  #isOut = false
  /** The most losses in a row that telemetry recovered from. */
  #longest = 0

  /** Takes a call in, in the order of receipt. */
  take(call: ReportedCall): void {
    const waiting = this.#open[other(call.by)]
    const index = this.#findTwin(waiting, call)
    if (index < 0) {
      const own = this.#open[call.by]
      // A client refuses calls that telemetry shows as failed.
      if (!call.isFailed) own.push({ ...call, isCounted: false })
      if (own.length > maxOpen) own.shift()
      return
    }
    const [twin] = waiting.splice(index, 1)
    this.#matched += 1
    this.#matchedAt = call.at
    this.#shownAt = Math.max(this.#shownAt, call.by === 'client' ? call.at : twin!.at)
    if (twin!.isCounted && twin!.by === 'client' && !twin!.isForgiven) this.#unseen -= 1
    const session = call.session ?? twin!.session
    if (session !== null && this.#seenSessions.size < minSeenSessions) this.#seenSessions.add(session)
    this.#learn(call.tool, call.at - twin!.at > graceMs.otlp)
    // How long a subagent runs says nothing about the way of its telemetry.
    if (this.#isExpected('otlp', call.tool)) this.#notePace(call.by === 'otlp' ? call.at - twin!.at : 0)
    // A side that names no session may mean this one.
    for (const one of [twin!.session, call.session, null]) this.#endRun('client', one)
    this.#endRun('otlp', null)
  }

  /** When both sides last reported the same call; 0: never. */
  get matchedAt(): number {
    return this.#matchedAt
  }

  /** What telemetry shows now; undefined where it shows only some calls, or none yet. */
  get telemetry(): TelemetryState | undefined {
    if (this.#matched < minMatched.otlp || this.#limitOf('otlp') !== minLosses.otlp) return undefined
    const run = this.#runs.get(runName('otlp', null))
    // Losses of an outage still count one by one when it is over.
    return run && run.lastAt > this.#shownAt ? { silentSince: run.since } : { shownAt: this.#shownAt }
  }

  /** What telemetry does not show while a collector is out was lost by it, and says nothing of the agent. */
  noteOutage(isOut: boolean): void {
    this.#isOut = isOut
    if (isOut) return
    this.#endRun('otlp', null, true)
    for (const call of this.#open.client) Object.assign(call, { isCounted: true, isForgiven: true })
  }

  #learn(tool: string, isLate: boolean): void {
    const known = this.#shared.get(tool) ?? { matched: 0, late: 0 }
    known.matched += 1
    if (isLate) known.late += 1
    if (this.#shared.size < maxTools || this.#shared.has(tool)) this.#shared.set(tool, known)
  }

  #notePace(delayMs: number): void {
    const latest = this.#latest
    if (latest.calls >= judgedCalls) Object.assign(latest, { calls: latest.calls / 2, prompt: latest.prompt / 2 })
    latest.calls += 1
    if (delayMs < promptMs) latest.prompt += 1
  }

  /** How long telemetry of a call that ended is waited for. */
  get #patienceMs(): number {
    const { calls, prompt } = this.#latest
    return prompt >= minPrompt * calls ? promptMs : graceMs.otlp
  }

  #isExpected(missing: Side, tool: string): boolean {
    const known = this.#shared.get(tool)
    if (!known) return false
    return (missing === 'client' || known.matched >= minOfTool) && known.late <= maxLate * known.matched
  }

  #findTwin(waiting: readonly OpenCall[], { tool, session, id }: ReportedCall): number {
    const isSame = (one: OpenCall) => one.tool === tool && (one.session === session || !one.session || !session)
    if (id === null) return waiting.findIndex(isSame)
    const named = waiting.findIndex((one) => one.id === id)
    return named >= 0 ? named : waiting.findIndex((one) => one.id === null && isSame(one))
  }

  #endRun(missing: Side, session: string | null, isForgiven = this.#isOut): void {
    const name = runName(missing, session)
    const run = this.#runs.get(name)
    this.#runs.delete(name)
    if (!run || missing !== 'otlp') return
    if (isForgiven) this.#unseen -= run.calls
    else this.#longest = Math.max(this.#longest, run.losses)
  }

  /** Returns what is missing now. */
  judge(now: number): Mismatch[] {
    for (const side of ['client', 'otlp'] as const) this.#count(side, now)
    for (const [name, run] of this.#runs) if (now - run.lastAt > 24 * hourMs) this.#runs.delete(name)
    return (['client', 'otlp'] as const).flatMap((missing) => this.#mismatchOf(missing) ?? [])
  }

  #count(by: Side, now: number): void {
    const missing = other(by)
    const calls = this.#open[by]
    const patienceMs = missing === 'otlp' ? this.#patienceMs : graceMs.client
    while (calls.length > 0 && now - calls[0]!.at > openMs) calls.shift()
    for (const [index, call] of calls.entries()) {
      if (now - call.at < patienceMs) break
      if (call.isCounted || !this.#isExpected(missing, call.tool)) continue
      // Telemetry comes when the call ends, and it has ended when its session goes on.
      const isOver = (next: OpenCall) => next.session === call.session && now - next.at >= patienceMs
      if (missing === 'otlp' && !calls.slice(index + 1).some(isOver)) continue
      call.isCounted = true
      if (missing === 'otlp') this.#unseen += 1
      this.#lose(missing, call)
    }
  }

  #lose(missing: Side, call: OpenCall): void {
    const name = runName(missing, call.session)
    let run = this.#runs.get(name)
    if (!run) {
      if (this.#runs.size >= maxSessions) this.#runs.delete(this.#runs.keys().next().value!)
      run = new LossRun(missing, call.at)
      this.#runs.set(name, run)
    }
    run.lose(call)
  }

  #mismatchOf(missing: Side): Mismatch | undefined {
    if (this.#matched < minMatched[missing]) return undefined
    const limit = this.#limitOf(missing)
    const runs = [...this.#runs.values()].filter((run) => run.missing === missing && run.losses >= limit)
    if (runs.length === 0) return undefined
    const tools = new Map<string, number>()
    for (const run of runs) for (const [tool, count] of run.tools) tools.set(tool, (tools.get(tool) ?? 0) + count)
    return {
      missing,
      since: Math.min(...runs.map(({ since }) => since)),
      calls: runs.reduce((sum, { calls }) => sum + calls, 0),
      tools,
    }
  }

  #limitOf(missing: Side): number {
    if (missing === 'client') return minLosses.client
    if (this.#seenSessions.size < minSeenSessions && this.#matched < minSeenCalls) return Infinity
    // What is missing now says nothing about how it was before.
    const before = this.#unseen - (this.#runs.get(runName('otlp', null))?.calls ?? 0)
    const isSampled = this.#matched < sampledBelow * (this.#matched + before)
    if (!isSampled) return minLosses.otlp
    return this.#matched < minSampled ? Infinity : Math.max(minLosses.otlp, sampledFactor * this.#longest)
  }
}

const runName = (missing: Side, session: string | null): string =>
  missing === 'otlp' ? missing : `${missing} ${session ?? ''}`

/** How often agents are judged: a mismatch is found within a minute of the call that completes it. */
export const judgeEveryMs = minuteMs / 12
