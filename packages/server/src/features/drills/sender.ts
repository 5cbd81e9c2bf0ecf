import { eventTypes, offlineAfterMs } from '@wardline/contract'
import { isoTime, minuteMs } from '../../clock.ts'
import { pagesOf } from '../../db/portions.ts'
import type { Deps } from '../../deps.ts'
import { randomSecret } from '../../ids.ts'
import type { ControlStream } from '../control/control-stream.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import { noteDrillable } from '../instances/drill-statements.ts'
import { type AskCells, readRunning, readScheduled, readUnasked, takeAsks, takeScheduled } from './queries.ts'
import { nextDrillAt, retryDrillMs } from './schedule.ts'

/** Drills signed and sent per turn of the event loop: some ten milliseconds. */
const sendAtOnce = 100
const pageRows = 1_000
/** Scheduled drills per run, which limits them when a fleet returns after an outage. */
const scheduledAtOnce = 200
/** Newly connected agents whose history is read per run. */
const readAtOnce = 1_000
/** Two processes may hold streams of one agent. */
const sameQuestionMs = minuteMs
const nonceBytes = 16
/** Scheduled drills in a row: a supervisor may start after the first one, or lose its stream for a moment. */
const silentAfter = 2

interface SenderParts {
  controlStream: ControlStream
  countedReports: Pick<CountedReports, 'note'>
}

/** Sends drills to the agents connected to this process. Guarded updates decide which process sends. */
export class DrillSender {
  readonly #deps: Deps
  readonly #stream: ControlStream
  readonly #countedReports: SenderParts['countedReports']
  /** Times of the next scheduled drills of connected agents. */
  #dueAt = new Map<string, number>()
  #asking: Promise<void> | undefined

  constructor(deps: Deps, { controlStream, countedReports }: SenderParts) {
    this.#deps = deps
    this.#stream = controlStream
    this.#countedReports = countedReports
  }

  /** Sends running drills, of any process, to connected agents that have not got them. */
  ask(): Promise<void> {
    this.#asking ??= this.#askAll().finally(() => {
      this.#asking = undefined
    })
    return this.#asking
  }

  async #askAll(): Promise<void> {
    const { database } = this.#deps
    for (const { id } of await readRunning(database.db)) {
      const pages = pagesOf(pageRows, (last?: string) => readUnasked(database.db, id, last ?? '', pageRows))
      for await (const page of pages) {
        const ours = page.filter((instanceId) => this.#stream.understood(instanceId)?.includes('drill'))
        await this.#send(ours, (asks, now) => takeAsks(database, id, asks, now))
      }
    }
  }

  /** Sends due scheduled drills. */
  async askScheduled(): Promise<void> {
    const { config, clock, database } = this.#deps
    if (config.drillHours === null) return
    const periodMs = config.drillHours * 60 * minuteMs
    const now = clock.now()
    const dueAt = new Map<string, number>()
    const unknown: string[] = []
    const due: string[] = []
    const openedAt = new Map<string, number>()
    for (const [id, at] of this.#stream.listening('drill')) {
      const next = this.#dueAt.get(id)
      // A time beyond the period means that the clock was set back.
      const isKnown = next !== undefined && next <= now + 2 * periodMs
      if (isKnown) dueAt.set(id, next)
      if (isKnown && next > now) continue
      const list = isKnown ? due : unknown
      if (list.length < (isKnown ? scheduledAtOnce : readAtOnce)) {
        list.push(id)
        openedAt.set(id, at)
      }
    }
    this.#dueAt = dueAt
    if (unknown.length > 0) await noteDrillable(database, unknown, now)
    const looked = [...due, ...unknown]
    if (looked.length === 0) return
    const asked = await readScheduled(database, looked)
    const ripe: string[] = []
    for (const id of looked) {
      const { asked_at: askedAt = null, answered_at: answeredAt = null } = asked.get(id) ?? {}
      const next = nextDrillAt(id, { askedAt, answeredAt, openedAt: openedAt.get(id)! }, periodMs, now)
      dueAt.set(id, next)
      if (next <= now && ripe.length < scheduledAtOnce) ripe.push(id)
    }
    await this.#send(ripe, async (asks, at) => {
      const bounds = { now: at, notSince: at - sameQuestionMs, supervisedSince: at - offlineAfterMs }
      const taken = await takeScheduled(database, asks, bounds)
      for (const [id, missed] of taken) if (missed === silentAfter) this.#reportSilent(id)
      return taken
    })
    // Check again once it is known whether they answered, to any process.
    for (const id of ripe) dueAt.set(id, now + retryDrillMs)
  }

  #reportSilent(instanceId: string): void {
    const kind = eventTypes.supervisorSilent
    this.#countedReports.note({ kind, owner: instanceId }, () => ({
      severity: 'warning',
      event_type: kind,
      description: `Its supervisor sends heartbeats, and answered none of its last ${silentAfter} drills`,
      instance_id: instanceId,
      metadata: { drills: silentAfter },
    }))
  }

  async #send(
    ids: readonly string[],
    take: (asks: readonly AskCells[], now: number) => Promise<{ has(id: string): boolean }>,
  ): Promise<void> {
    const { clock, controlSigner, metrics } = this.#deps
    for (let start = 0; start < ids.length; start += sendAtOnce) {
      const asks = ids.slice(start, start + sendAtOnce).map((id): AskCells => [id, randomSecret(nonceBytes)])
      const now = clock.now()
      const taken = await take(asks, now)
      for (const [instanceId, nonce] of asks) {
        if (!taken.has(instanceId)) continue
        const message = controlSigner.signDrill({ instance_id: instanceId, nonce, issued_at: isoTime(now) })
        this.#stream.send(instanceId, 'drill', JSON.stringify(message))
        metrics.drills.inc({ result: 'asked' })
      }
    }
  }
}
