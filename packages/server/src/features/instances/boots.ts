import { eventTypes } from '@wardline/contract'
import { minuteMs } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import type { EventToStore, Ingest } from '../events/ingest.ts'
import type { Beat } from './beats.ts'
import { type BootChange, type BootNote, noteBoots } from './boot-queries.ts'

/** A run of an agent, as shown by its first heartbeat. Null: the run is older than this feature. */
interface Boot {
  /** Null: its heartbeats have no boot id. */
  id: string | null
  /** Agent type, version and fail mode of a run without a boot id: two such runs differ in them. */
  traits?: string
  /** Epoch milliseconds. */
  at: number | null
  key: string | null
  address: string | null
  /** When a run without a boot id was last seen again after another run. */
  again?: number
  /** Milliseconds between its first and last heartbeat, known once another run was seen. */
  heard?: number
}

export interface BootWatch {
  /** Records heartbeats of another run, and reports restart loops and clones. Never rejects. */
  note(changes: readonly BootChange[], beats: ReadonlyMap<string, Beat>, now: number): Promise<void>
}

/**
 * Latest runs kept per instance to recognize clones and restart loops. With the two of `lastingOf` that is about 0.7 kB
 * in the row, 3 kB at most.
 */
const recentBoots = 5
/** Clones alternate with every heartbeat: they are reported once per period, with a count. */
const cloneReportMs = 10 * minuteMs
/** This many restarts within the window are a loop, which lasts until a pause longer than the window. */
const loopRestarts = 3
const loopWindowMs = 5 * minuteMs

/** A run that was heard for longer than the window of a restart loop is no part of one. */
const settledMs = loopWindowMs

type Finding =
  /** An earlier run returned after another one was seen: both are running. */
  { kind: 'clone'; occurrences: number; boots: readonly [Boot, Boot] } | { kind: 'loop'; restarts: number }

interface Arrival {
  boot: Boot & { at: number }
  isLeaving: boolean
}

interface Noted {
  note: BootNote
  isRestart: boolean
  findings: Finding[]
}

type Traits = { agent_type?: string | null; version?: string | null; fail_mode?: string | null }

const runOf = (id: string | null | undefined, said: Traits, before: Traits): Pick<Boot, 'id' | 'traits'> => {
  if (id) return { id }
  const { agent_type, version, fail_mode } = before
  return {
    id: null,
    traits: JSON.stringify([said.agent_type ?? agent_type, said.version ?? version, said.fail_mode ?? fail_mode]),
  }
}

const isSameRun = (one: Pick<Boot, 'id' | 'traits'>, other: Pick<Boot, 'id' | 'traits'>): boolean =>
  one.id === other.id && one.traits === other.traits

/**
 * Whether the returning run and the one before it run at the same time. A boot id that comes back proves it. Without one,
 * a release that was taken back looks the same, so both must have come back within a few minutes.
 */
function areTwo(returned: Boot, before: Boot, now: number, isLeaving: boolean): boolean {
  if (returned.id !== null) return true
  // Without a boot id and always leaving: a command that runs for each call, such as the hook of several coding agents.
  if (isLeaving || before.id !== null || before.again === undefined) return false
  return now - before.again <= loopWindowMs && before.again <= now
}

/**
 * Returns which of the runs that are no longer recent are kept: the last settled one, and the longest heard since. A copy
 * that takes a new boot id with each heartbeat would otherwise displace the original before it is heard again. Of runs with
 * equal minutes the first one stays: agents send two heartbeats a minute, so no run of a copy is heard for a minute without
 * the original between.
 */
function lastingOf(earlier: readonly Boot[]): Boot[] {
  const settled = earlier.findIndex(({ heard = 0 }) => heard >= settledMs)
  const since = settled < 0 ? earlier : earlier.slice(0, settled)
  const minutes = ({ heard = 0 }: Boot) => Math.floor(heard / minuteMs)
  const oldestFirst = since.toReversed().toSorted((one, other) => (one.at ?? 0) - (other.at ?? 0))
  const [longest] = oldestFirst.toSorted((one, other) => minutes(other) - minutes(one))
  return [longest ?? [], earlier[settled] ?? []].flat()
}

const kept = (boots: readonly Boot[]): Boot[] => [
  ...boots.slice(0, recentBoots),
  ...lastingOf(boots.slice(recentBoots)),
]

/** Returns the changes for a heartbeat of another run. `mayJudge` is false after a change of the clock: times are unreliable. */
function noteBoot(change: BootChange, { boot: arriving, isLeaving }: Arrival, mayJudge: boolean): Noted {
  const now = arriving.at
  const known: Boot[] = change.boots === null ? [] : JSON.parse(change.boots)
  const current = runOf(change.boot_id, {}, change)
  const isKnown = known[0] !== undefined && isSameRun(known[0], current)
  const [last, ...older] = isKnown ? known : [{ ...current, at: null, key: null, address: null }, ...known]
  // The start of an instance's first run is not noted: it counts as settled.
  const heard = change.boots === null ? settledMs : change.last_heartbeat_at - (last!.at ?? Infinity)
  const earlier: Boot[] = [{ ...last!, heard: Math.max(heard, last!.heard ?? 0) }, ...older]
  const returned = earlier.find((boot) => isSameRun(boot, arriving))
  // A returning run keeps the time of its start.
  const { at = now, heard: heardBefore = 0 } = returned ?? {}
  const again = returned && arriving.id === null ? { again: now } : {}
  const boot = { ...arriving, at, heard: heardBefore, ...again }
  const boots = kept([boot, ...earlier.filter((boot) => !isSameRun(boot, arriving))])
  const note = { ...change, before: change.boots, boots: JSON.stringify(boots) }
  const findings: Finding[] = []
  if (returned && areTwo(returned, earlier[0]!, now, isLeaving)) {
    const { clone_reported_at: reportedAt } = change
    const occurrences = change.clone_count + 1
    const isDue = reportedAt === null || now - reportedAt >= cloneReportMs || reportedAt > now
    Object.assign(note, isDue ? { clone_count: 0, clone_reported_at: now } : { clone_count: occurrences })
    if (isDue) findings.push({ kind: 'clone', occurrences, boots: [boot, earlier[0]!] })
    return { note, isRestart: false, findings }
  }
  // A client that only sends a boot id with its first heartbeat goes on without one.
  const isUpgraded = change.boots === null && change.boot_id === null
  if (returned || arriving.id === null || isUpgraded) return { note, isRestart: false, findings }
  const isRecent = (at: number | null) => at !== null && at <= now && now - at <= loopWindowMs
  const restarts = boots.filter(({ id, at }) => id !== null && isRecent(at)).length
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

/** Detects restarts, restart loops and clones (two agents under one id) by boot ids that change, end or come back. */
export function createBootWatch(
  { database, timekeeping, log }: Pick<Deps, 'database' | 'timekeeping' | 'log'>,
  {
    countedReports,
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
        const boot = { ...runOf(heartbeat.boot_id, heartbeat, change), at: now, key: keyId, address }
        return noteBoot(change, { boot, isLeaving: heartbeat.leaving === true }, mayJudge)
      })
      for (const [index, { isRestart }] of noted.entries()) {
        const change = changes[index]!
        if (isRestart) reportRestart(countedReports, change, beats.get(change.id)!.keyId, now)
      }
      // The heartbeats are stored already, so a failure here must not fail them.
      await store(noted).catch((fault) => log.warn({ err: fault }, 'starts of instances were not noted'))
    },
  }
}
