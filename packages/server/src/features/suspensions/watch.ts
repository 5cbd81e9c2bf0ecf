import { alertTypes, eventTypes } from '@wardline/contract'
import { dayMs, isoTime } from '../../clock.ts'
import type { Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import type { OwnAlert } from '../alerts/outbox/alert.ts'
import type { Outbox } from '../alerts/outbox/outbox.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import type { EventToStore, Ingest } from '../events/ingest.ts'
import { readActivity } from '../events/log-statements.ts'
import type { OwnEvent } from '../events/new-event.ts'
import { readOwners } from '../instances/control-statements.ts'
import { type Activity, breachAfter, type Decision, decide, settingsOf } from './states.ts'
import type { SuspendedAgents } from './suspended-agents.ts'
import { decisionStatement, readDue, readLasting, type SuspensionRow } from './watch-statements.ts'

/** Suspensions per reading and transaction: a kill waits at most some ten milliseconds for it. */
const chunkRows = 100
/** Suspensions checked per run; the others follow a second later. */
const runRows = 5_000
/** After this time a late confirmation is not reported, only shown in the fleet view. */
const lookBackMs = 7 * dayMs
/** Children that an event names; the others are only counted. */
const namedChildren = 5

const seconds = (ms: number) => `${Math.max(0, ms / 1_000).toFixed(1)} seconds`

const receivedText = ({ delivered_at, delivered_by }: SuspensionRow): string => {
  if (delivered_at === null) return 'the suspension was not delivered to it'
  const way = delivered_by === 'answer' ? ' only by a header of answers' : ''
  return `the suspension was delivered to it${way}`
}

interface WatchParts {
  ingest: Ingest
  countedReports: Pick<CountedReports, 'note'>
  outbox: Outbox
  suspendedAgents: SuspendedAgents
}

/**
 * Watches suspended agents: whether they acknowledge in time, fall silent, or continue. Each decision is based on a fresh
 * read of the row and the log, and stored by a guarded update, so that any number of processes may watch.
 */
export function createSuspensionWatch(deps: Deps, { ingest, countedReports, outbox, suspendedAgents }: WatchParts) {
  const { database, clock, config, metrics, timekeeping } = deps
  const { db } = database
  const settings = settingsOf(config)
  const unconfirmedChildren: SuspensionRow[] = []

  function unconfirmedEvent(row: SuspensionRow, now: number): EventToStore {
    const waited = seconds(now - row.requested_at)
    const received = receivedText(row)
    return ingest.own({
      severity: 'critical',
      event_type: eventTypes.killUnconfirmed,
      description: `Not confirmed ${waited} after the kill: the agent is offline, or still working; ${received}.`,
      instance_id: row.instance_id,
      metadata: { version: row.version, delivered: row.delivered_at !== null },
    })
  }

  function breachEvent(row: SuspensionRow, { reports, breaches, first_breach_at, last_breach_at }: Decision) {
    const delivered = row.delivered_at !== null || row.acknowledged_at !== null
    const isCertain = row.acknowledged_at !== null || (delivered && row.delivered_by !== 'answer')
    const undelivered = isCertain ? '' : `; ${receivedText(row)}`
    const first = isoTime(first_breach_at!)
    const last = isoTime(last_breach_at!)
    return ingest.own({
      severity: 'breach',
      event_type: eventTypes.activityWhileSuspended,
      description: `${reports} ${reports === 1 ? 'event or decoy check' : 'events or decoy checks'} of the agent although it is suspended, the last at ${last}${undelivered}`,
      instance_id: row.instance_id,
      metadata: {
        version: row.version,
        delivered,
        occurrences: reports,
        total: breaches,
        first_at: first,
        last_at: last,
      },
    })
  }

  /**
   * Counts children that did not confirm, by their parent: a key may register any number of them. `owner` is that key, so
   * that many parents fill no more events either.
   */
  function noteChildren(owner: string, parent: string, children: readonly string[]): void {
    const latest = children.slice(0, namedChildren)
    const type = eventTypes.childrenUnconfirmed
    const describe = (count: number): OwnEvent => ({
      severity: 'critical',
      event_type: type,
      description: `${count} ${count === 1 ? 'agent' : 'agents'} below ${parent} did not confirm within ${seconds(settings.acknowledgeMs)} that they stopped with it: offline, or still working (${latest.join(', ')}${count > latest.length ? ', …' : ''}).`,
      instance_id: parent,
      metadata: { children: count, latest },
    })
    countedReports.note({ kind: type, owner, name: parent }, describe, children.length)
  }

  /** Reports the children that were found unconfirmed. */
  async function reportChildren(): Promise<void> {
    const found = [...unconfirmedChildren]
    const owners = new Map<string, string>()
    for (let first = 0; first < found.length; first += chunkRows) {
      const ids = found.slice(first, first + chunkRows).map(({ instance_id }) => instance_id)
      for (const { id, owner } of await readOwners(db, ids)) owners.set(id, owner)
    }
    // What was not read is reported with the next run.
    unconfirmedChildren.splice(0, found.length)
    const ownerOf = ({ instance_id }: SuspensionRow) => owners.get(instance_id) ?? ''
    for (const [parent, children] of Map.groupBy(found, ({ through_id }) => through_id!)) {
      for (const [owner, own] of Map.groupBy(children, ownerOf)) {
        const ids = own.map(({ instance_id }) => instance_id)
        noteChildren(owner, parent, ids)
      }
    }
  }

  const confirmedAlert = (row: SuspensionRow): OwnAlert => ({
    severity: 'info',
    event_type: alertTypes.killConfirmed,
    instance_id: row.instance_id,
    description: `The agent confirmed ${seconds(row.acknowledged_at! - row.requested_at)} after the kill that it stopped.`,
  })

  function observe({ row, decision, isUnconfirmedChild }: Look): void {
    if (isUnconfirmedChild) unconfirmedChildren.push(row)
    const stage = (name: 'acknowledged' | 'silent', at: number) =>
      metrics.suspensionStageSeconds.observe({ stage: name }, (at - row.requested_at) / 1_000)
    const isConfirmed = decision.result_reported === 'confirmed' && row.result_reported !== 'confirmed'
    if (isConfirmed) stage('acknowledged', row.acknowledged_at!)
    if (decision.silent_at !== null && row.silent_at === null) stage('silent', decision.silent_at)
  }

  /** Returns the events that report a decision. */
  function reportsOf(row: SuspensionRow, decision: Decision, now: number) {
    // A containment reports the results of its members in one event.
    const isReported = row.containment_id === null && now - row.requested_at < lookBackMs
    const isChild = row.through_id !== null
    const hasNewResult = isReported && decision.result_reported !== row.result_reported
    const isUnconfirmed = hasNewResult && decision.result_reported === 'unconfirmed'
    const isConfirmed = hasNewResult && decision.result_reported === 'confirmed'
    return {
      events: [
        ...(isUnconfirmed && !isChild ? [unconfirmedEvent(row, now)] : []),
        ...(decision.reports > 0 ? [breachEvent(row, decision)] : []),
      ],
      // The alert is that of the parent.
      alerts: isConfirmed && !isChild ? [confirmedAlert(row)] : [],
      isUnconfirmedChild: isUnconfirmed && isChild,
    }
  }

  async function look(rows: readonly SuspensionRow[]): Promise<void> {
    if (rows.length === 0) return
    // Taken before the log is read: silence is only proven up to this time.
    const now = clock.now()
    const time = { mayJudge: timekeeping.mayJudge(), steadyMs: timekeeping.steadyMs() }
    const subjects = rows.map((row) => ({
      id: row.instance_id,
      afterSeq: row.checked_seq,
      since: row.requested_at,
      until: row.resumed_at,
      breachAfter: breachAfter(row),
    }))
    const { upTo, found } = await readActivity(database, subjects)
    const looks = rows.flatMap((row, place) => {
      const activity = found.get(place)
      const decision = decide(row, activity ?? noActivity, now, { settings, ...time })
      // Most readings show nothing new and write nothing.
      return activity === undefined && isKnown(row, decision) ? [] : [lookOf(row, decision, upTo, now)]
    })
    const [reporting, plain] = [looks.filter(({ reports }) => reports), looks.filter(({ reports }) => !reports)]
    if (plain.length > 0) {
      const written = await database.batch(plain.map(({ statement }) => statement))
      for (const [index, one] of plain.entries()) if (written[index]!.length > 0) observe(one)
    }
    if (reporting.length > 0) await report(reporting, now)
  }

  /** Stores decisions and their events in one transaction. */
  async function report(looks: readonly Look[], now: number): Promise<void> {
    const { written, publish } = await db.transaction().execute(async (trx) => {
      const written: Look[] = []
      for (const one of looks) {
        const { rows } = await trx.executeQuery(one.statement)
        if (rows.length > 0) written.push(one)
      }
      const events = written.flatMap(({ reports }) => reports!.events)
      const publish = events.length > 0 ? await ingest.storeWithin(trx, events) : () => {}
      const alerts = written.flatMap(({ reports }) => reports!.alerts)
      if (alerts.length > 0) await outbox.write(trx, alerts, now)
      return { written, publish }
    })
    publish()
    outbox.notify()
    for (const one of written) observe(one)
  }

  function lookOf(row: SuspensionRow, decision: Decision, upTo: number, now: number): Look {
    const { reports: count, ...facts } = decision
    const { breaches_reported, breach_reported_at } = row
    const reported = count > 0 ? { breaches_reported: decision.breaches, breach_reported_at: now } : {}
    const decided = { ...facts, breaches_reported, breach_reported_at, ...reported, checked_seq: upTo }
    const { isUnconfirmedChild, ...found } = reportsOf(row, decision, now)
    const reports = found.events.length + found.alerts.length > 0 ? found : undefined
    return { row, decision, statement: decisionStatement(db, row, decided), reports, isUnconfirmedChild }
  }

  return {
    /** Periodic work. */
    async run(): Promise<void> {
      const active = [...(await suspendedAgents.takeActive())]
      let first = 0
      try {
        await suspendedAgents.writeUnlogged()
        for (; first < active.length; first += chunkRows)
          await look(await readLasting(db, active.slice(first, first + chunkRows).toSorted()))
      } catch (fault) {
        suspendedAgents.putBack(active.slice(first))
        throw fault
      }
      for (let done = 0; done < runRows; done += chunkRows) {
        const due = await readDue(db, clock.now(), chunkRows)
        await look(due.toSorted((a, b) => (a.instance_id < b.instance_id ? -1 : 1)))
        if (due.length < chunkRows) break
      }
      if (unconfirmedChildren.length > 0) await reportChildren()
    },
  }
}

interface Look {
  row: SuspensionRow
  decision: Decision
  statement: Statement
  /** Undefined if there is nothing to report. */
  reports: { events: EventToStore[]; alerts: OwnAlert[] } | undefined
  /** Reported together with others, see `noteChildren`. */
  isUnconfirmedChild: boolean
}

const noActivity: Activity = { breaches: 0, firstBreachAt: null, lastBreachAt: null, lastAt: null }

/** Whether a decision does not change the row. */
const isKnown = (row: SuspensionRow, { reports, ...facts }: Decision): boolean =>
  reports === 0 && Object.entries(facts).every(([name, value]) => row[name as keyof typeof facts] === value)
