import { eventTypes, telemetrySource, toolOf, type Witness } from '@wardline/contract'
import { dayMs, hourMs, isoTime, minuteMs } from '../../clock.ts'
import type { EventFields } from '../../db/schema/events.ts'
import type { Deps } from '../../deps.ts'
import type { LogFollower } from '../events/log-follower.ts'
import { readEventsBetween, readSeqRange } from '../events/log-statements.ts'
import { namesOf } from '../instances/heard-by.ts'
import { readTwiceHeard, readWitnesses } from '../instances/heard-by-statements.ts'
import { mayBeOutage, outageOf, type TelemetryState } from './collector.ts'
import { allAgents, type EpisodeParts, Episodes } from './episodes.ts'
import { CallMatcher, type Mismatch, type ReportedCall } from './mismatch.ts'
import { deleteEndedBefore, type MismatchRow, readOpen } from './queries.ts'
import { UnheardAgents } from './unheard.ts'

/** Agents that are compared: some KiB each. */
const maxAgents = 10_000
const pageAgents = 1_000
/** An agent that one of its witnesses has not spoken for since is no longer compared. */
const heardWithinMs = dayMs
const readAgentsEveryMs = 10_000
/** Of the log at startup, to know what was reported before; a flood must not delay the start of the comparison. */
const replayMs = hourMs
const replayRows = 20_000
const pageRows = 250
/** Events that name an agent, for each run: further ones are reported in the next runs. */
const maxNamed = 5
const keptMs = 30 * dayMs
/** Characters of the name of a tool. */
const toolLength = 100

interface Watched {
  matcher: CallMatcher
  hasHook: boolean
}

interface WatchParts extends EpisodeParts {
  logFollower: LogFollower
  policySets: EpisodeParts['policySets'] & { appliesTo(ids: readonly string[]): Promise<Set<string>> }
}

/**
 * Compares what two witnesses report of an agent, and finds agents with policies that only telemetry shows. Every process
 * follows the log, so that each can take over; the holder of the lease of the rules decides.
 */
export class MismatchWatch {
  readonly #deps: Deps
  readonly #parts: WatchParts
  readonly #episodes: Episodes
  readonly #unheard = new UnheardAgents()
  /** When the ends of episodes of unheard agents were last looked for, in monotonic milliseconds. */
  #unheardEndedAt = Number.NEGATIVE_INFINITY
  #watched = new Map<string, Watched>()
  #readAt = Number.NEGATIVE_INFINITY
  #isReplayed = false
  /** When the calls of an open episode were last counted, in monotonic milliseconds. */
  readonly #countedAt = new Map<string, number>()

  constructor(deps: Deps, parts: WatchParts) {
    this.#deps = deps
    this.#parts = parts
    this.#episodes = new Episodes(deps, parts)
    parts.logFollower.listen((row) => this.#hear(row))
  }

  #hear(row: EventFields): false {
    const { event_type, by_service, instance_id, created_at, session_id, source } = row
    if (event_type !== eventTypes.toolCall || by_service === 1 || instance_id === null) return false
    const watched = this.#watched.get(instance_id)
    // Without a second witness, what an agent's own client reports need not be read.
    if (!watched && source !== telemetrySource) this.#unheard.forget(instance_id)
    if ((!watched && source !== telemetrySource) || row.metadata === null) return false
    const metadata = JSON.parse(row.metadata) as Record<string, unknown>
    const tool = toolOf(metadata)?.toLowerCase().slice(0, toolLength)
    if (tool === undefined) return false
    const { callId, via, ok } = metadata
    const call: ReportedCall = {
      by: via === 'otlp' ? 'otlp' : 'client',
      at: created_at,
      tool,
      session: session_id,
      id: typeof callId === 'string' ? callId.slice(0, 200) : null,
      isFailed: ok === false,
    }
    if (watched) watched.matcher.take(call)
    else if (call.by === 'otlp') this.#unheard.take(instance_id, call)
    return false
  }

  /** Periodic job. `isHolder`: this process decides. */
  async run(isHolder: boolean): Promise<void> {
    const { clock, timekeeping } = this.#deps
    if (clock.monotonic() - this.#readAt >= readAgentsEveryMs) {
      await this.#readAgents()
      this.#readAt = clock.monotonic()
    }
    const now = clock.now()
    const compared = [...this.#watched].flatMap(([id, { matcher, hasHook }]) =>
      matcher.judge(now).map((mismatch) => ({ id, mismatch, missing: missingName(mismatch, hasHook) })),
    )
    if (!isHolder || !timekeeping.mayJudge()) return
    const { db } = this.#deps.database
    const unheard = [...(await this.#readUnheard(now))].map(([id, mismatch]) => {
      return { id, mismatch, missing: 'client' as const }
    })
    const open = new Map((await readOpen(db, maxAgents)).map((row) => [`${row.instance_id} ${row.missing}`, row]))
    const states = [...this.#watched.values()].flatMap(({ matcher }) => matcher.telemetry ?? [])
    const isOut = await this.#judgeCollector(states, open.get(collectorName), now)
    open.delete(collectorName)
    const ofAgents = compared.filter(({ missing, mismatch: { since } }) => {
      return missing !== 'otlp' || !(isOut || mayBeOutage(since, states, now))
    })
    const found = [...ofAgents, ...unheard]
    let named = 0
    for (const { id, mismatch, missing } of found) {
      const known = open.get(`${id} ${missing}`)
      open.delete(`${id} ${missing}`)
      const countedAt = this.#countedAt.get(`${id} ${missing}`) ?? Number.NEGATIVE_INFINITY
      if (named >= maxNamed) this.#unheard.askAgain(id)
      if ((known && clock.monotonic() - countedAt < minuteMs) || named >= maxNamed) continue
      this.#countedAt.set(`${id} ${missing}`, clock.monotonic())
      if (await this.#episodes.begin(id, mismatch, missing, now)) named += 1
    }
    if (found.length === 0) this.#countedAt.clear()
    const rest = [...open.values()]
    for (const row of rest.filter(({ missing }) => missing !== 'client')) {
      const matchedAt = this.#watched.get(row.instance_id)?.matcher.matchedAt ?? 0
      if (matchedAt > row.reported_at) await this.#episodes.end(row, now)
    }
    await this.#endUnheard(
      rest.filter(({ missing }) => missing === 'client'),
      now,
    )
  }

  /** Reports an outage of a shared collector, and its end. Resolves with whether it lasts. */
  async #judgeCollector(
    states: readonly TelemetryState[],
    row: MismatchRow | undefined,
    now: number,
  ): Promise<boolean> {
    const outage = outageOf(states)
    const note = (isOut: boolean) => {
      for (const { matcher } of this.#watched.values()) matcher.noteOutage(isOut)
    }
    if (outage) {
      note(true)
      if (!row) await this.#episodes.beginOutage(outage, now)
      return true
    }
    if (!row) return false
    // A process that has just started knows nothing of it.
    const isBack = states.some((state) => 'shownAt' in state && state.shownAt > row.reported_at)
    note(!isBack)
    if (!isBack) return true
    await this.#episodes.end(row, now, 'Telemetry of the agents is back')
    // What was judged before is forgiven as well.
    return true
  }

  /** Of agents that only telemetry shows, returns those to which policies apply. */
  async #readUnheard(now: number): Promise<Map<string, Mismatch>> {
    const found = this.#unheard.due(now, this.#deps.clock.monotonic())
    if (found.size === 0) return found
    const ids = [...found.keys()]
    const [heardBy, policed] = await Promise.all([this.#readHeard(ids, now), this.#parts.policySets.appliesTo(ids)])
    for (const id of ids) {
      const isHeard = hasClient(heardBy.get(id))
      if (isHeard) this.#unheard.forget(id)
      if (isHeard || !heardBy.get(id)?.includes('otlp') || !policed.has(id)) found.delete(id)
    }
    return found
  }

  async #readHeard(ids: readonly string[], now: number): Promise<Map<string, Witness[]>> {
    const rows = await readWitnesses(this.#deps.database.db, ids, now - heardWithinMs)
    return new Map([...Map.groupBy(rows, ({ instance_id }) => instance_id)].map(([id, of]) => [id, namesOf(of)]))
  }

  /** Ends the episodes of agents for which a hook or SDK speaks now, that fell silent, or that no policy names any more. */
  async #endUnheard(rows: readonly MismatchRow[], now: number): Promise<void> {
    const { clock } = this.#deps
    if (rows.length === 0 || clock.monotonic() - this.#unheardEndedAt < minuteMs) return
    this.#unheardEndedAt = clock.monotonic()
    for (let start = 0; start < rows.length; start += pageAgents) {
      const page = rows.slice(start, start + pageAgents)
      const ids = page.map(({ instance_id }) => instance_id)
      const [heardBy, policed] = await Promise.all([this.#readHeard(ids, now), this.#parts.policySets.appliesTo(ids)])
      for (const row of page) {
        const heard = heardBy.get(row.instance_id)
        if (hasClient(heard)) await this.#episodes.end(row, now, 'Its hook or SDK is heard')
        else if (!heard?.includes('otlp')) await this.#episodes.end(row, now, 'Nothing is heard of it any more')
        else if (!policed.has(row.instance_id)) await this.#episodes.end(row, now, 'No policy applies to it any more')
      }
    }
  }

  async #readAgents(): Promise<void> {
    const { database, clock } = this.#deps
    const since = clock.now() - heardWithinMs
    const watched = new Map<string, Watched>()
    for (let after = ''; watched.size < maxAgents; ) {
      const page = await database.scan('witnesses', (db) => readTwiceHeard(db, { since, after, limit: pageAgents }))
      for (const { instance_id: id, has_hook } of page) {
        const matcher = this.#watched.get(id)?.matcher ?? new CallMatcher()
        watched.set(id, { matcher, hasHook: Number(has_hook) === 1 })
        this.#unheard.forget(id)
      }
      after = page.at(-1)?.instance_id ?? after
      if (page.length < pageAgents) break
    }
    this.#watched = watched
    if (!this.#isReplayed) await this.#replay()
    this.#isReplayed = true
  }

  /** Takes in what was reported before this process started. */
  async #replay(): Promise<void> {
    const { database, clock } = this.#deps
    const range =
      this.#watched.size > 0 ? await readSeqRange(database.db, clock.now() - replayMs, clock.now()) : undefined
    if (!range) return
    const { first, last } = range
    // What comes meanwhile is heard before it: at worst a call is not matched, and one loss is no mismatch.
    for (let after = Math.max(first - 1, last - replayRows); after < last; ) {
      const bounds = { after, upTo: last, limit: pageRows }
      const page = await database.scan('witnesses', (db) => readEventsBetween(db, bounds))
      for (const row of page) this.#hear(row)
      if (page.length < pageRows) break
      after = page.at(-1)!.seq
    }
  }
}

const missingName = ({ missing }: Mismatch, hasHook: boolean): MismatchRow['missing'] =>
  missing === 'otlp' ? 'otlp' : hasHook ? 'hook' : 'sdk'

const collectorName = `${allAgents} otlp`
const clients: readonly Witness[] = ['sdk', 'hook', 'mcp']
const hasClient = (heard: readonly Witness[] = []): boolean => heard.some((witness) => clients.includes(witness))

/** Returns the calls of an agent that only one witness reports now. */
export async function viewMismatches({ database }: Pick<Deps, 'database'>, instanceId: string) {
  const rows = await readOpen(database.db, 3, instanceId)
  return rows.map(({ missing, severity, since, calls, tools }) => ({
    missing,
    severity,
    since: isoTime(since),
    calls,
    tools: Object.keys(JSON.parse(tools) as object),
  }))
}

/** Periodic job: deletes episodes that ended long ago. */
export const forgetMismatches = ({ database, clock }: Pick<Deps, 'database' | 'clock'>) =>
  deleteEndedBefore(database.db, clock.now() - keptMs)
