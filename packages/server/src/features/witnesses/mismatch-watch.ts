import { eventTypes, toolOf } from '@wardline/contract'
import { dayMs, hourMs, isoTime, minuteMs } from '../../clock.ts'
import type { EventFields } from '../../db/schema/events.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { Ingest } from '../events/ingest.ts'
import type { LogFollower } from '../events/log-follower.ts'
import { readEventsBetween, readSeqRange } from '../events/log-statements.ts'
import { readTwiceHeard } from '../instances/heard-by-statements.ts'
import { CallMatcher, type Mismatch } from './mismatch.ts'
import { beginMismatch, deleteEndedBefore, endMismatch, type MismatchRow, readOpen } from './queries.ts'

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
/** Between two events of an agent about the same witness: one that comes and goes must not flood. */
const quietMs = hourMs
const keptMs = 30 * dayMs
/** Tools and characters of their names in an event. */
const shownTools = 10
const toolLength = 100

interface Watched {
  matcher: CallMatcher
  hasHook: boolean
}

interface WatchParts {
  logFollower: LogFollower
  ingest: Pick<Ingest, 'own' | 'storeWithin'>
  policySets: { restricts(instanceId: string, tools: readonly string[]): Promise<boolean> }
}

/**
 * Compares what two witnesses report of an agent. Every process follows the log, so that each can take over; the holder of
 * the lease of the rules decides, and the row of an episode is stored with its event, so that there is one.
 */
export class MismatchWatch {
  readonly #deps: Deps
  readonly #parts: WatchParts
  #watched = new Map<string, Watched>()
  #readAt = Number.NEGATIVE_INFINITY
  #isReplayed = false
  /** When the calls of an open episode were last counted, in monotonic milliseconds. */
  readonly #countedAt = new Map<string, number>()

  constructor(deps: Deps, parts: WatchParts) {
    this.#deps = deps
    this.#parts = parts
    parts.logFollower.listen((row) => this.#hear(row))
  }

  #hear(row: EventFields): false {
    const { event_type, by_service, instance_id, created_at, session_id } = row
    if (event_type !== eventTypes.toolCall || by_service === 1 || instance_id === null) return false
    const watched = this.#watched.get(instance_id)
    if (!watched || row.metadata === null) return false
    const metadata = JSON.parse(row.metadata) as Record<string, unknown>
    const tool = toolOf(metadata)?.toLowerCase().slice(0, toolLength)
    if (tool === undefined) return false
    const { callId, via, ok } = metadata
    watched.matcher.take({
      by: via === 'otlp' ? 'otlp' : 'client',
      at: created_at,
      tool,
      session: session_id,
      id: typeof callId === 'string' ? callId.slice(0, 200) : null,
      isFailed: ok === false,
    })
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
    const found = [...this.#watched].flatMap(([id, { matcher, hasHook }]) =>
      matcher.judge(now).map((mismatch) => ({ id, mismatch, missing: missingName(mismatch, hasHook) })),
    )
    if (!isHolder || !timekeeping.mayJudge()) return
    const { db } = this.#deps.database
    const open = new Map((await readOpen(db, maxAgents)).map((row) => [`${row.instance_id} ${row.missing}`, row]))
    let named = 0
    for (const { id, mismatch, missing } of found) {
      const known = open.get(`${id} ${missing}`)
      open.delete(`${id} ${missing}`)
      const countedAt = this.#countedAt.get(`${id} ${missing}`) ?? Number.NEGATIVE_INFINITY
      if ((known && clock.monotonic() - countedAt < minuteMs) || named >= maxNamed) continue
      this.#countedAt.set(`${id} ${missing}`, clock.monotonic())
      if (await this.#begin(id, mismatch, missing, now)) named += 1
    }
    if (found.length === 0) this.#countedAt.clear()
    for (const row of open.values()) {
      const matchedAt = this.#watched.get(row.instance_id)?.matcher.matchedAt ?? 0
      if (matchedAt > row.reported_at) await this.#end(row, now)
    }
  }

  async #begin(id: string, mismatch: Mismatch, missing: MismatchRow['missing'], now: number): Promise<boolean> {
    const { ingest, policySets } = this.#parts
    const { db } = this.#deps.database
    const names = [...mismatch.tools.keys()]
    const isRestricted = missing !== 'otlp' && (await policySets.restricts(id, names).catch(unlessDeleted))
    const shown = Object.fromEntries([...mismatch.tools].slice(0, shownTools))
    const row: MismatchRow = {
      instance_id: id,
      missing,
      severity: isRestricted ? 'critical' : 'warning',
      since: mismatch.since,
      calls: mismatch.calls,
      tools: JSON.stringify(shown),
      reported_at: now,
      ended_at: null,
    }
    const event = ingest.own({
      severity: row.severity,
      event_type: eventTypes.reportMismatch,
      description: `${describe(row)}${isRestricted ? '; a policy denies or asks about one of their tools' : ''}`,
      instance_id: id,
      metadata: { missing, calls: row.calls, tools: shown, since: isoTime(row.since), restricted: isRestricted },
    })
    let publish = () => {}
    const isReported = await db.transaction().execute(async (trx) => {
      if (!(await beginMismatch(trx, row, now - quietMs))) return false
      publish = await ingest.storeWithin(trx, [event])
      return true
    })
    publish()
    return isReported
  }

  async #end(row: MismatchRow, now: number): Promise<void> {
    const { ingest } = this.#parts
    const event = ingest.own({
      severity: 'info',
      event_type: eventTypes.reportMismatchEnded,
      description: `Its ${witnessTexts[row.missing]} reports calls again`,
      instance_id: row.instance_id,
      metadata: { missing: row.missing, calls: row.calls, since: isoTime(row.since) },
    })
    let publish = () => {}
    await this.#deps.database.db.transaction().execute(async (trx) => {
      if (await endMismatch(trx, row, now)) publish = await ingest.storeWithin(trx, [event])
    })
    publish()
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

function unlessDeleted(fault: unknown): false {
  if (fault instanceof AppError && fault.code === 'not_found') return false
  throw fault
}

const witnessTexts: Record<MismatchRow['missing'], string> = { hook: 'hook', sdk: 'SDK', otlp: 'telemetry' }

const missingName = ({ missing }: Mismatch, hasHook: boolean): MismatchRow['missing'] =>
  missing === 'otlp' ? 'otlp' : hasHook ? 'hook' : 'sdk'

const describe = ({ missing, calls, tools }: MismatchRow): string => {
  const names = Object.keys(JSON.parse(tools) as object).join(', ')
  const other = missing === 'otlp' ? 'its hook or SDK' : 'its telemetry'
  return `${calls} calls that only ${other} reported, not its ${witnessTexts[missing]}: ${names}`.slice(0, 900)
}

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
