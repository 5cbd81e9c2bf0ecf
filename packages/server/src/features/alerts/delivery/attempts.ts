import { setTimeout as pause } from 'node:timers/promises'
import { GroupCommit } from '../../../db/group-commit.ts'
import type { Deps } from '../../../deps.ts'
import { randomBetween, randomSecret } from '../../../ids.ts'
import type { Verdict } from '../channels/channel.ts'
import { readMessage } from '../channels/message.ts'
import { type ReceiverState, receiverStatement } from '../routing/queries.ts'
import type { KnownChannel } from '../routing/routing-table.ts'
import { type AttemptResult, type ClaimedMessage, resultStatement } from './queries.ts'
import { nextAttempt, pauseAfter } from './retry-schedule.ts'
import { attemptWithinMs, type Send } from './sender.ts'

/** Lease of a message: how long a crashed process blocks it. Four times the maximum duration of an attempt. */
export const leaseMs = 4 * attemptWithinMs
/** Results are kept in memory while the database is unavailable; otherwise delivered messages would be sent again. */
const retryResultMs = 250

/** Health of the receivers. */
interface Receivers {
  /** Returns the failed attempts of a channel since its last delivery. */
  failuresOf(channelId: string): number
  /** Called with the results of attempts once they are on disk. */
  learn(states: readonly ReceiverState[]): void
}

/** Makes attempts and stores their results, of the message and of its channel, in batches. */
export class Attempts {
  readonly #deps: Pick<Deps, 'database' | 'clock' | 'metrics'>
  readonly #send: Send
  readonly #receivers: Receivers
  readonly #results: GroupCommit<AttemptResult, true>
  /** Id of this process in the leases that it takes. */
  readonly owner = randomSecret(12)

  constructor(deps: Pick<Deps, 'database' | 'clock' | 'metrics'>, send: Send, receivers: Receivers) {
    this.#deps = deps
    this.#send = send
    this.#receivers = receivers
    this.#results = new GroupCommit<AttemptResult, true>({
      queue: 'alert_results',
      clock: deps.clock,
      metrics: deps.metrics,
      commit: (results) => this.#write(results),
      weigh: () => ({ rows: 1, bytes: 1_000 }),
    })
  }

  /**
   * Makes one attempt of a message that this process holds. Resolves once the result is on disk. Rejects if it could not
   * be stored before the lease ended; the message is then sent again. An attempt cut off by `closing` is not a failure.
   */
  async make(channel: KnownChannel, message: ClaimedMessage, closing: AbortSignal): Promise<Verdict> {
    const { clock } = this.#deps
    const started = clock.monotonic()
    const verdict = await this.#send(channel, readMessage(message.content), closing)
    if (closing.aborted && !verdict.delivered) return verdict
    const now = clock.now()
    const spread = randomBetween(0, 1_000) / 1_000
    const dueAt = verdict.delivered
      ? undefined
      : nextAttempt(message.kind, message.attempts + 1, now, spread, verdict.retryAfterSeconds)
    await this.#keep({ message, owner: this.owner, verdict, now, dueAt }, started + leaseMs)
    this.#count(channel, message, { verdict, isDead: !verdict.delivered && dueAt === undefined, started })
    return verdict
  }

  whenIdle(): Promise<void> {
    return this.#results.whenIdle()
  }

  async #keep(result: AttemptResult, until: number): Promise<void> {
    for (;;) {
      try {
        await this.#results.add(result)
        return
      } catch (fault) {
        if (this.#deps.clock.monotonic() >= until) throw fault
        await pause(retryResultMs)
      }
    }
  }

  #count(channel: KnownChannel, message: ClaimedMessage, made: { verdict: Verdict; isDead: boolean; started: number }) {
    const { metrics, clock } = this.#deps
    const result = made.verdict.delivered ? 'delivered' : made.isDead ? 'dead' : 'failed'
    metrics.alertAttempts.inc({ channel: channel.type, result })
    metrics.alertAttemptSeconds.observe({ channel: channel.type }, (clock.monotonic() - made.started) / 1000)
    if (!made.verdict.delivered) return
    metrics.alertDelaySeconds.observe({ channel: channel.type }, Math.max(0, clock.now() - message.created_at) / 1000)
  }

  async #write(results: AttemptResult[]): Promise<true[]> {
    const { database } = this.#deps
    const byChannel = Map.groupBy(results, ({ message }) => message.channel_id)
    // Lock channels first, in a fixed order, like every transaction that locks both, to prevent deadlocks.
    const channels = [...byChannel].sort(([one], [other]) => (one < other ? -1 : 1))
    const states = channels.map(([id, own]) => this.#stateAfter(id, own))
    await database.batch([
      ...states.map((state) => receiverStatement(database.db, state)),
      ...results.map((result) => resultStatement(database.db, result)),
    ])
    this.#receivers.learn(states)
    return results.map(() => true)
  }

  #stateAfter(channelId: string, results: readonly AttemptResult[]): ReceiverState {
    const { now } = results.at(-1)!
    const error = results.findLast(({ verdict }) => verdict.error !== null)?.verdict.error ?? null
    if (results.some(({ verdict }) => verdict.delivered)) {
      return { channelId, failures: null, error, now, resumeAt: null }
    }
    const asked = Math.max(0, ...results.map(({ verdict }) => verdict.retryAfterSeconds ?? 0)) * 1_000
    const wait = Math.max(asked, pauseAfter(this.#receivers.failuresOf(channelId) + results.length))
    return { channelId, failures: results.length, error, now, resumeAt: wait > 0 ? now + wait : null }
  }
}
