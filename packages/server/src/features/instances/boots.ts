import { eventTypes } from '@wardline/contract'
import { minuteMs } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import type { EventToStore, Ingest } from '../events/ingest.ts'
import { type Beat, type BootChange, type BootNote, noteBoots } from './registration-queries.ts'

/** A run of an agent, as shown by its first heartbeat. Null: the run is older than this feature. */
interface Boot {
  id: string
  /** Epoch milliseconds. */
  at: number | null
  key: string | null
  address: string | null
}

export interface BootWatch {
  /** Records heartbeats with a new boot id, and reports restart loops and clones. Never rejects. */
  note(changes: readonly BootChange[], beats: ReadonlyMap<string, Beat>, now: number): Promise<void>
}

/** Runs kept per instance to recognize clones and restart loops: half a kilobyte in the row. */
const maxBoots = 5
/** Clones alternate with every heartbeat: they are reported once per period, with a count. */
const cloneReportMs = 10 * minuteMs
/** This many restarts within the window are a loop, which lasts until a pause longer than the window. */
const loopRestarts = 3
const loopWindowMs = 5 * minuteMs

type Finding =
  /** An earlier run returned after another one was seen: both are running. */
  { kind: 'clone'; occurrences: number; boots: readonly [Boot, Boot] } | { kind: 'loop'; restarts: number }

interface Noted {
  note: BootNote
  isRestart: boolean
  findings: Finding[]
}

/** Returns the changes for a heartbeat of another run. `mayJudge` is false after a change of the clock: times are unreliable. */
function noteBoot(change: BootChange, arriving: Boot & { at: number }, mayJudge: boolean): Noted {
  const now = arriving.at
  const known: Boot[] = change.boots === null ? [] : JSON.parse(change.boots)
  const last = known[0]?.id === change.boot_id ? known[0] : undefined
  const earlier = last ? known : [{ id: change.boot_id!, at: null, key: null, address: null }, ...known]
  const returned = earlier.find(({ id }) => id === arriving.id)
  // A returning run keeps the time of its start.
  const boot = returned ? { ...arriving, at: returned.at } : arriving
  const boots = [boot, ...earlier.filter(({ id }) => id !== arriving.id)].slice(0, maxBoots)
  const note = { ...change, before: change.boots, boots: JSON.stringify(boots) }
  const findings: Finding[] = []
  if (returned) {
    const { clone_reported_at: reportedAt } = change
    const occurrences = change.clone_count + 1
    const isDue = reportedAt === null || now - reportedAt >= cloneReportMs || reportedAt > now
    Object.assign(note, isDue ? { clone_count: 0, clone_reported_at: now } : { clone_count: occurrences })
    if (isDue) findings.push({ kind: 'clone', occurrences, boots: [boot, earlier[0]!] })
    return { note, isRestart: false, findings }
  }
  const isRecent = (at: number | null) => at !== null && at <= now && now - at <= loopWindowMs
  const restarts = boots.filter(({ at }) => isRecent(at)).length
  if (mayJudge && restarts >= loopRestarts) {
    if (!isRecent(change.crash_loop_at)) findings.push({ kind: 'loop', restarts })
    note.crash_loop_at = now
  } else if (isRecent(change.crash_loop_at)) note.crash_loop_at = now
  return { note, isRestart: true, findings }
}

const named = ({ id, at, key, address }: Boot) => ({ boot_id: id, first_seen_at: at, key_id: key, address })
const placeOf = ({ address, key }: Boot): string => {
  const parts = [address === null ? [] : [`address ${address}`], key === null ? [] : [`key ${key}`]].flat()
  return parts.length > 0 ? parts.join(', ') : 'address unknown'
}

function describe(instanceId: string, finding: Finding) {
  if (finding.kind === 'loop') {
    return {
      severity: 'warning' as const,
      event_type: eventTypes.instanceCrashLoop,
      description: `Started ${finding.restarts} times within ${loopWindowMs / minuteMs} minutes`,
      instance_id: instanceId,
      metadata: { restarts: finding.restarts, window_seconds: loopWindowMs / 1_000 },
    }
  }
  const { boots, occurrences } = finding
  const [one, other] = boots
  return {
    severity: 'critical' as const,
    event_type: eventTypes.instanceClone,
    description: `Two agents use this instance id at the same time: one at ${placeOf(one)}, one at ${placeOf(other)}`,
    instance_id: instanceId,
    metadata: { occurrences, boots: [named(one), named(other)] },
  }
}

/** Reports a restart of an agent, at most once a minute per instance. A restart is not an outage. */
function reportRestart(
  reports: Pick<CountedReports, 'note'>,
  { id, last_heartbeat_at }: BootChange,
  keyId: string,
  now: number,
): void {
  const seconds = Math.max(0, Math.floor((now - last_heartbeat_at) / 1_000))
  reports.note({ kind: eventTypes.instanceRestarted, owner: keyId, name: id }, (count) => ({
    severity: 'info',
    event_type: eventTypes.instanceRestarted,
    description: `Started again, ${seconds} seconds after the last heartbeat of its earlier run`,
    instance_id: id,
    metadata: { seconds_away: seconds, occurrences: count },
  }))
}

/** Detects restarts, restart loops and clones (two agents under one id) by changed boot ids. */
export function createBootWatch(
  { database, timekeeping, log }: Pick<Deps, 'database' | 'timekeeping' | 'log'>,
  {
    countedReports: reports,
    ingest,
  }: { countedReports: Pick<CountedReports, 'note'>; ingest: Pick<Ingest, 'own' | 'storeWithin'> },
): BootWatch {
  async function store(noted: readonly Noted[]): Promise<void> {
    const notes = noted.map(({ note }) => note)
    if (noted.every(({ findings }) => findings.length === 0)) {
      await noteBoots(database, notes)
      return
    }
    // The report and the record of it are one transaction, so that exactly one process reports it.
    const publish = await database.db.transaction().execute(async (trx) => {
      const written = await noteBoots({ db: trx, dialect: database.dialect }, notes)
      const events: EventToStore[] = noted.flatMap(({ note, findings }) =>
        written.has(note.id) ? findings.map((finding) => ingest.own(describe(note.id, finding))) : [],
      )
      return events.length > 0 ? await ingest.storeWithin(trx, events) : () => {}
    })
    publish()
  }

  return {
    async note(changes, beats, now) {
      const mayJudge = timekeeping.mayJudge()
      const noted = changes.map((change) => {
        const { heartbeat, keyId, address = null } = beats.get(change.id)!
        return noteBoot(change, { id: heartbeat.boot_id!, at: now, key: keyId, address }, mayJudge)
      })
      for (const [index, { isRestart }] of noted.entries()) {
        const change = changes[index]!
        if (isRestart) reportRestart(reports, change, beats.get(change.id)!.keyId, now)
      }
      // The heartbeats are stored already, so a failure here must not fail them.
      await store(noted).catch((fault) => log.warn({ err: fault }, 'starts of instances were not noted'))
    },
  }
}
