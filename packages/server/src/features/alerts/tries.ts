import { setTimeout as pause } from 'node:timers/promises'
import { GroupCommit } from '../../db/group-commit.ts'
import type { Deps } from '../../deps.ts'
import { randomBetween, randomSecret } from '../../ids.ts'
import type { Verdict } from './channels/channel.ts'
import type { KnownChannel } from './directory.ts'
import { type ClaimedMessage, channelStatement, resultStatement, type TryResult } from './message-queries.ts'
import type { ChannelProgress } from './plan-queries.ts'
import { nextTry, pauseAfter } from './retry-schedule.ts'
import { type Send, tryWithinMs } from './sender.ts'

/** A process that took a message and died holds it up this long: four times what a try can take. */
export const leaseMs = 4 * tryWithinMs
/** A database that was away takes the results afterwards: without them what was delivered would be sent again. */
const retryResultMs = 250

/** Makes tries, and writes what came of them: of the message and of its channel, many at a time. */
export class Tries {
  readonly #deps: Pick<Deps, 'database' | 'clock' | 'metrics'>
  readonly #send: Send
  readonly #results: GroupCommit<TryResult, true>
  /** Names this process in what it takes. */
  readonly owner = randomSecret(12)
  /** Channels as of the last reading, and of what happened since. */
  progress = new Map<string, ChannelProgress>()

  constructor(deps: Pick<Deps, 'database' | 'clock' | 'metrics'>, send: Send) {
    this.#deps = deps
    this.#send = send
    this.#results = new GroupCommit<TryResult, true>({
      queue: 'alert_results',
      clock: deps.clock,
      metrics: deps.metrics,
      commit: (results) => this.#write(results),
      weigh: () => ({ rows: 1, bytes: 1_000 }),
    })
  }

  /**
   * One try of a message that this process holds. Resolves when its result is on disk, and rejects when that failed
   * until the lease ended: then it is sent once more. Who was cut off by `closing` did not fail.
   */
  async make(channel: KnownChannel, message: ClaimedMessage, closing: AbortSignal): Promise<Verdict> {
    const { clock } = this.#deps
    const started = clock.monotonic()
    const verdict = await this.#send(channel, JSON.parse(message.content), closing)
    if (closing.aborted && !verdict.delivered) return verdict
    const now = clock.now()
    const spread = randomBetween(0, 1_000) / 1_000
    const dueAt = verdict.delivered
      ? undefined
      : nextTry(message.kind, message.attempts + 1, now, spread, verdict.retryAfterSeconds)
    await this.#keep({ message, owner: this.owner, verdict, now, dueAt }, started + leaseMs)
    this.#count(channel, message, { verdict, isDead: !verdict.delivered && dueAt === undefined, started })
    return verdict
  }

  whenIdle(): Promise<void> {
    return this.#results.whenIdle()
  }

  async #keep(result: TryResult, until: number): Promise<void> {
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

  #count(
    channel: KnownChannel,
    message: ClaimedMessage,
    tried: { verdict: Verdict; isDead: boolean; started: number },
  ) {
    const { metrics, clock } = this.#deps
    const result = tried.verdict.delivered ? 'delivered' : tried.isDead ? 'dead' : 'failed'
    metrics.alertTries.inc({ channel: channel.type, result })
    metrics.alertTrySeconds.observe({ channel: channel.type }, (clock.monotonic() - tried.started) / 1000)
    if (!tried.verdict.delivered) return
    metrics.alertDelaySeconds.observe({ channel: channel.type }, Math.max(0, clock.now() - message.created_at) / 1000)
  }

  async #write(results: TryResult[]): Promise<true[]> {
    const { db } = this.#deps.database
    const byChannel = Map.groupBy(results, ({ message }) => message.channel_id)
    // Channels first and in one order, as everybody locks them who changes both.
    const channels = [...byChannel].sort(([one], [other]) => (one < other ? -1 : 1))
    await this.#deps.database.batch([
      ...channels.map(([id, own]) => this.#channelStatement(id, own)),
      ...results.map((result) => resultStatement(db, result)),
    ])
    return results.map(() => true)
  }

  /** What the tries of a channel say of its receiver; in memory too, for what is sent before the next reading. */
  #channelStatement(id: string, results: readonly TryResult[]) {
    const { db } = this.#deps.database
    const { now } = results.at(-1)!
    const progress = this.progress.get(id) ?? { id, plannedSeq: 0, failures: 0, resumeAt: null }
    this.progress.set(id, progress)
    const error = results.findLast(({ verdict }) => verdict.error !== null)?.verdict.error ?? null
    if (results.some(({ verdict }) => verdict.delivered)) {
      Object.assign(progress, { failures: 0, resumeAt: null })
      return channelStatement(db, id, { failures: null, error, now, resumeAt: null })
    }
    progress.failures += results.length
    const asked = Math.max(0, ...results.map(({ verdict }) => verdict.retryAfterSeconds ?? 0)) * 1_000
    const wait = Math.max(asked, pauseAfter(progress.failures))
    progress.resumeAt = wait > 0 ? now + wait : null
    return channelStatement(db, id, { failures: results.length, error, now, resumeAt: progress.resumeAt })
  }
}
