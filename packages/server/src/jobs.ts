import { hourMs } from './clock.ts'
import { teamText } from './db/teams.ts'
import type { Deps } from './deps.ts'
import { forgetOldAlerts } from './features/alerts/alerts.ts'
import { watchChannels } from './features/alerts/delivery/channel-health.ts'
import { forgetApprovals } from './features/approvals/approvals.ts'
import { closeExpired } from './features/approvals/decisions.ts'
import { forgetBaselines } from './features/detection/baselines.ts'
import { scoutEveryMs } from './features/detection/scout.ts'
import { forgetDrills } from './features/drills/drills.ts'
import { drillModels } from './features/drills/model-drills.ts'
import { warnOfOverdue } from './features/drills/overdue.ts'
import { finishDrills } from './features/drills/report.ts'
import { lossWatch } from './features/events/lost-events.ts'
import { forgetOldEvents } from './features/events/retention.ts'
import { createSizeRetention } from './features/events/size-retention.ts'
import { createFolderCompletion } from './features/honeypots/honeypots.ts'
import { forgetOldHits } from './features/honeypots/retention.ts'
import { forgetConfigs } from './features/instances/agent-configs.ts'
import { forgetInstances } from './features/instances/deletion.ts'
import { showFleet } from './features/instances/fleet-count.ts'
import { forgetWitnesses } from './features/instances/heard-by.ts'
import { forgetHistory, writeHistoryEveryMs } from './features/instances/history.ts'
import { forgetStaleSessions, liveSessions } from './features/keys/sessions.ts'
import { isPersonId, readTeams } from './features/people/person-statements.ts'
import { forgetFirings } from './features/rules/retention.ts'
import { forgetSuspensions } from './features/suspensions/suspensions.ts'
import type { JobRuns } from './features/system/job-runs.ts'
import { attestWeekly, newAttestations } from './features/trust/trust.ts'
import { verifyWeekly } from './features/trust/verification/published.ts'
import { judgeEveryMs } from './features/witnesses/mismatch.ts'
import { forgetMismatches } from './features/witnesses/mismatch-watch.ts'
import type { Holder } from './http/auth.ts'
import { anonymous } from './http/route.ts'
import type { Services } from './services.ts'

/** Periodic work, called by a timer or directly by tests. */
export interface Job {
  name: string
  everyMs: number
  /** Whether a process that only passes calls of models on runs it too. */
  ofGateway?: true
  /** Work in batches must end after the current batch once `stopping` is aborted, because shutdown waits for it. */
  run(stopping?: AbortSignal): Promise<void> | void
}

/** Ends the streams whose key or session is no longer valid. */
async function endStreams(deps: Deps, { passkeys, eventStream, controlStream }: Services): Promise<void> {
  const sessions = new Set<string>()
  const people = new Set<string>()
  for (const stream of [eventStream, controlStream]) {
    for (const { session, keyId } of stream.holders()) {
      if (session !== undefined) sessions.add(session)
      if (isPersonId(keyId)) people.add(keyId)
    }
  }
  const live = await liveSessions(deps, sessions)
  const teams = new Map((await readTeams(deps.database.db, [...people])).map(({ id, team }) => [id, team]))
  const isAsStored = ({ keyId, team }: Holder) => !people.has(keyId) || teams.get(keyId) === teamText(team)
  const isLive = ({ keyId, session }: Holder) =>
    // A session whose stream opened after the query is checked in the next run.
    (isPersonId(keyId) || passkeys.isValid(keyId)) &&
    (session === undefined || live.has(session) || !sessions.has(session))
  const isValid = (holder: Holder) => holder.keyId === anonymous.keyId || (isLive(holder) && isAsStored(holder))
  eventStream.endInvalid(isValid)
  controlStream.endInvalid(isValid)
}

/** Returns no jobs without a configured chain. Rollups make a block every two seconds, so five seconds suffice. */
const chainJobs = ({ chain, ingest }: Services): Job[] =>
  chain === undefined
    ? []
    : [
        {
          name: 'chain',
          everyMs: 5_000,
          run: async () => {
            await chain.run()
            await chain.report(ingest)
          },
        },
      ]

/** Returns no jobs if verification is off. It runs weekly, so checking once a minute suffices. */
const verificationJobs = (deps: Deps): Job[] =>
  deps.config.trustVerify
    ? [{ name: 'verification', everyMs: 60_000, run: (stopping) => verifyWeekly(deps, stopping) }]
    : []

export interface JobOptions {
  /** No attestations are written while this returns false. Default: always true. */
  mayAttest?: () => boolean
}

/** Lists all periodic jobs. Several processes may run them at once. */
export function listJobs(deps: Deps, services: Services, { mayAttest = () => true }: JobOptions = {}): Job[] {
  const {
    chainWatch,
    ingest,
    countedReports,
    eventIndex,
    keyring,
    scout,
    decoyChecks,
    decoyFetches,
    eventStream,
    controlStream,
    controlRelay,
    streamBacklog,
  } = services
  const { routingTable, dispatcher, outbox } = services
  const sizeRetention = createSizeRetention(deps, ingest)
  return [
    {
      // Twice a second, so that within a second a key revoked by another process is refused and its streams end.
      name: 'keys',
      everyMs: 500,
      ofGateway: true,
      run: async () => {
        await keyring.refresh()
        await endStreams(deps, services)
      },
    },
    { name: 'clock', everyMs: 1_000, ofGateway: true, run: () => deps.timekeeping.check() },
    { name: 'control', everyMs: 1_000, ofGateway: true, run: () => controlRelay.run() },
    { name: 'suspension-facts', everyMs: 1_000, ofGateway: true, run: () => services.suspensionFacts.write() },
    // A new witness is shown, and compared with the others, within a second.
    { name: 'heard-by', everyMs: 1_000, ofGateway: true, run: () => services.heardBy.write() },
    { name: 'control-streams', everyMs: 1_000, run: () => services.openStreams.write() },
    {
      name: 'drills',
      everyMs: 500,
      run: async () => {
        await services.drillSender.ask()
        await finishDrills(deps, services.openStreams)
      },
    },
    // Scheduled drills are spread over hours, so a delay of five seconds does not matter.
    { name: 'drill-schedule', everyMs: 5_000, run: () => services.drillSender.askScheduled() },
    { name: 'model-drills', everyMs: 1_000, ofGateway: true, run: () => services.modelDrills.run() },
    { name: 'model-drill-schedule', everyMs: 60_000, run: () => drillModels(deps) },
    { name: 'drills-overdue', everyMs: 60_000, run: () => warnOfOverdue(deps, services) },
    { name: 'drill-retention', everyMs: 300_000, run: (stopping) => forgetDrills(deps, stopping) },
    { name: 'event-log', everyMs: 1_000, run: () => services.logFollower.reconcile() },
    { name: 'lost-events', everyMs: 1_000, run: lossWatch(deps, services) },
    { name: 'stream-reconcile', everyMs: 1_000, run: () => eventStream.reconcile() },
    { name: 'key-usage', everyMs: 60_000, ofGateway: true, run: () => keyring.flushUsage() },
    {
      // Alerts written by this process wake the dispatcher. This finds those of other processes and due retries.
      name: 'alerts',
      everyMs: 1_000,
      ofGateway: true,
      run: async () => {
        await routingTable.refresh()
        await dispatcher.run()
      },
    },
    { name: 'approvals', everyMs: 1_000, run: () => closeExpired(deps, services) },
    { name: 'telegram-presses', everyMs: 1_000, run: (stopping) => services.telegramPresses.run(stopping) },
    { name: 'approval-retention', everyMs: 60_000, run: (stopping) => forgetApprovals(deps, stopping) },
    // Twice a second, so that children stop within a second after their parent.
    { name: 'child-suspensions', everyMs: 500, run: () => services.childSuspensions.run() },
    { name: 'containments', everyMs: 1_000, run: () => services.containmentWork.run() },
    { name: 'containment-retention', everyMs: 60_000, run: (stopping) => services.containmentWork.forget(stopping) },
    { name: 'suspension-watch', everyMs: 1_000, run: () => services.suspensionWatch.run() },
    { name: 'enforcement', everyMs: 1_000, run: () => services.enforcement.run() },
    { name: 'enforcement-retention', everyMs: 60_000, run: (stopping) => services.enforcement.forget(stopping) },
    // Another process takes over a free lease within a second.
    { name: 'rules', everyMs: 500, run: () => services.ruleRunner.run() },
    { name: 'rule-files', everyMs: 2_000, run: () => services.ruleFiles.run(services.ruleRunner.isHolder) },
    { name: 'policy-version', everyMs: 1_000, run: () => services.policySets.refresh() },
    { name: 'policy-files', everyMs: 2_000, run: () => services.policyFiles.run(services.ruleRunner.isHolder) },
    { name: 'rule-retention', everyMs: 60_000, run: (stopping) => forgetFirings(deps, stopping) },
    ...chainJobs(services),
    ...verificationJobs(deps),
    { name: 'alert-summaries', everyMs: 5_000, run: () => outbox.writeSummaries() },
    { name: 'alert-health', everyMs: 10_000, run: () => watchChannels(deps, outbox, routingTable) },
    { name: 'alert-retention', everyMs: 60_000, run: (stopping) => forgetOldAlerts(deps, stopping) },
    { name: 'decoy-folders', everyMs: 60_000, run: createFolderCompletion(deps) },
    { name: 'decoy-patterns', everyMs: 1_000, ofGateway: true, run: () => decoyChecks.refresh() },
    { name: 'decoy-urls', everyMs: 1_000, run: () => decoyFetches.refresh() },
    {
      name: 'stream-keep-alive',
      everyMs: deps.config.streamKeepAliveSeconds * 1_000,
      run: () => {
        eventStream.keepAlive()
        controlStream.keepAlive()
      },
    },
    // Cuts clients that read nothing for 15 to 30 seconds. They reconnect and resume.
    { name: 'stream-stalls', everyMs: 15_000, run: () => streamBacklog.cutStalled() },
    {
      name: 'scout',
      everyMs: scoutEveryMs,
      run: async () => {
        await scout.sweep()
        await showFleet(deps)
      },
    },
    {
      // Weekly, but repeated while a signer is away.
      name: 'attestations',
      everyMs: 30_000,
      run: async (stopping) => {
        if (!mayAttest()) return
        await attestWeekly(deps, stopping)
        await services.chain?.submit(await newAttestations(deps))
      },
    },
    {
      // Counts are kept in buckets of five minutes.
      name: 'report-habits',
      everyMs: 300_000,
      run: (stopping) => services.blindness.sweep(stopping),
    },
    { name: 'anomalies', everyMs: 60_000, run: () => services.baselines.endSilent() },
    {
      // Young baselines borrow from the fleet's, which changes slowly.
      name: 'fleet-baselines',
      everyMs: 600_000,
      run: (stopping) => services.fleetBaselines.refresh(deps.clock.now(), stopping),
    },
    { name: 'baselines', everyMs: hourMs, run: (stopping) => forgetBaselines(deps, stopping) },
    { name: 'counted-reports', everyMs: 10_000, ofGateway: true, run: () => countedReports.run() },
    { name: 'refusals', everyMs: 60_000, ofGateway: true, run: () => services.probing.run() },
    {
      name: 'event-index',
      everyMs: 1_000,
      run: (stopping) => eventIndex.run(ingest.isBusy, stopping),
    },
    { name: 'retention', everyMs: 60_000, run: (stopping) => forgetOldEvents(deps, stopping) },
    { name: 'hit-retention', everyMs: 60_000, run: (stopping) => forgetOldHits(deps, stopping) },
    { name: 'suspension-retention', everyMs: 60_000, run: (stopping) => forgetSuspensions(deps, stopping) },
    { name: 'size-retention', everyMs: 60_000, run: (stopping) => sizeRetention.run(stopping) },
    {
      name: 'instance-history',
      everyMs: writeHistoryEveryMs,
      ofGateway: true,
      run: async (stopping) => {
        await services.activityCounts.write()
        await forgetHistory(deps, stopping)
      },
    },
    {
      name: 'model-use',
      everyMs: 60_000,
      run: (stopping) => services.useReports.run(services.ruleRunner.isHolder, stopping),
    },
    { name: 'budget-retention', everyMs: hourMs, run: (stopping) => services.modelBudgets.forget(stopping) },
    {
      name: 'report-mismatches',
      everyMs: judgeEveryMs,
      run: () => services.mismatchWatch.run(services.ruleRunner.isHolder),
    },
    { name: 'mismatch-retention', everyMs: hourMs, run: () => forgetMismatches(deps) },
    { name: 'heard-by-retention', everyMs: hourMs, run: (stopping) => forgetWitnesses(deps, stopping) },
    { name: 'config-retention', everyMs: hourMs, run: (stopping) => forgetConfigs(deps, stopping) },
    { name: 'instances', everyMs: hourMs, run: (stopping) => forgetInstances(deps, stopping) },
    { name: 'search-index', everyMs: 60_000, run: () => services.search.forget() },
    { name: 'sessions', everyMs: 60_000, run: () => forgetStaleSessions(deps) },
    { name: 'command-logins', everyMs: 60_000, run: () => services.commandLogins.forgetStale() },
    { name: 'person-groups', everyMs: 10_000, run: (stopping) => services.evaluation.run(stopping) },
    { name: 'audit-checkpoint', everyMs: 60_000, run: () => chainWatch.writeCheckpoint() },
    // About ten microseconds per entry: one second per hour for a log of 100,000 entries.
    { name: 'audit-verify', everyMs: hourMs, run: () => chainWatch.verify() },
  ]
}

/**
 * Runs each job at once and then by its timer, never concurrently with itself. A failed run is logged; the next one
 * retries. Returns a function that stops all jobs.
 */
export function startJobs(
  jobs: Job[],
  { log, metrics }: Pick<Deps, 'log' | 'metrics'>,
  { jobRuns }: { jobRuns: JobRuns },
): () => Promise<void> {
  const running = new Map<string, Promise<void>>()
  const stopping = new AbortController()
  const once = (job: Job) => {
    jobRuns.due(job.name, job.everyMs)
    if (running.has(job.name)) return
    jobRuns.started(job.name)
    const work = new Promise<void>((resolve) => resolve(job.run(stopping.signal)))
      .then(
        () => {
          metrics.jobRuns.inc({ name: job.name, result: 'ok' })
          jobRuns.succeeded(job.name)
        },
        (fault) => {
          jobRuns.failed(job.name, fault)
          metrics.jobRuns.inc({ name: job.name, result: 'failed' })
          log.error({ err: fault, job: job.name }, 'periodic work failed')
        },
      )
      .then(() => void running.delete(job.name))
    running.set(job.name, work)
  }
  for (const job of jobs) once(job)
  const timers = jobs.map((job) => setInterval(once, job.everyMs, job))
  return async () => {
    for (const timer of timers) clearInterval(timer)
    stopping.abort()
    await Promise.all(running.values())
  }
}
