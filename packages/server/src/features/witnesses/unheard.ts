import { dayMs, minuteMs } from '../../clock.ts'
import { LossRun } from './loss-run.ts'
import { graceMs, type Mismatch, minLosses, type ReportedCall } from './mismatch.ts'

/** Calls within the grace of a hook: those of a flood count at once. */
const maxWaiting = 64

/** Tool calls that telemetry shows of an agent for which no hook or SDK speaks. */
export class UnheardCalls {
  readonly #waiting: ReportedCall[] = []
  #run: LossRun | undefined
  #lastAt = Number.NEGATIVE_INFINITY

  /** Takes a call of telemetry in, in the order of receipt. */
  take(call: ReportedCall): void {
    this.#lastAt = call.at
    this.#waiting.push(call)
    if (this.#waiting.length > maxWaiting) this.#lose(this.#waiting.shift()!)
  }

  /** When the last call was received. */
  get lastAt(): number {
    return this.#lastAt
  }

  /** Returns what no hook or SDK reported; undefined while that may be an accident. */
  judge(now: number): Mismatch | undefined {
    while (this.#waiting.length > 0 && now - this.#waiting[0]!.at >= graceMs.client) this.#lose(this.#waiting.shift()!)
    return this.#run && this.#run.losses >= minLosses.client ? this.#run : undefined
  }

  #lose(call: ReportedCall): void {
    this.#run ??= new LossRun('client', call.at)
    this.#run.lose(call)
  }
}

/** Agents whose calls are remembered: a few hundred bytes each. */
const maxAgents = 10_000
/** An agent without calls for this long is forgotten. */
const keptMs = dayMs
/** Agents for which the database is asked in a run, and how often for each: most have no policy, or a hook. */
const maxAsked = 500
const askEveryMs = minuteMs

/** Agents for which only telemetry speaks. */
export class UnheardAgents {
  readonly #agents = new Map<string, { calls: UnheardCalls; askedAt: number }>()

  take(id: string, call: ReportedCall): void {
    let agent = this.#agents.get(id)
    if (!agent) {
      if (this.#agents.size >= maxAgents) this.#agents.delete(this.#agents.keys().next().value!)
      agent = { calls: new UnheardCalls(), askedAt: Number.NEGATIVE_INFINITY }
      this.#agents.set(id, agent)
    }
    agent.calls.take(call)
  }

  /** Call when a hook or SDK speaks for the agent. */
  forget(id: string): void {
    this.#agents.delete(id)
  }

  /** Call when a mismatch could not be reported yet. */
  askAgain(id: string): void {
    const agent = this.#agents.get(id)
    if (agent) agent.askedAt = Number.NEGATIVE_INFINITY
  }

  /** Returns agents with calls that no hook or SDK reported, each once a minute. `monotonic`: in milliseconds. */
  due(now: number, monotonic: number): Map<string, Mismatch> {
    const due = new Map<string, Mismatch>()
    for (const [id, agent] of this.#agents) {
      if (due.size >= maxAsked) break
      if (now - agent.calls.lastAt > keptMs) this.#agents.delete(id)
      const mismatch = monotonic - agent.askedAt < askEveryMs ? undefined : agent.calls.judge(now)
      if (!mismatch) continue
      agent.askedAt = monotonic
      due.set(id, mismatch)
    }
    return due
  }
}
