import type { Deps } from './deps.ts'
import { watchChannels } from './features/alerts/channel-health.ts'
import { forgetOldAlerts } from './features/alerts/retention.ts'
import { auditCheckpoint } from './features/audit/audit.ts'
import { formatCheckpoint } from './features/audit/chain.ts'
import { scoutEveryMs } from './features/detection/scout.ts'
import { indexEvents } from './features/events/event-index.ts'
import { forgetOldEvents } from './features/events/retention.ts'
import { showFleet } from './features/instances/fleet-count.ts'
import { forgetStaleSessions } from './features/keys/sessions.ts'
import { reportKillResults } from './features/kill-switch/kill-results.ts'
import { attestWeekly } from './features/trust/trust.ts'
import { open } from './http/route.ts'
import type { Services } from './services.ts'

/** Periodic work: a plain function that a timer calls, and tests call directly. */
export interface Job {
  name: string
  everyMs: number
  run(): Promise<void> | void
}

/** All periodic work. Several processes may do it at once. */
export function listJobs(deps: Deps, services: Services): Job[] {
  const { ingest, keyring, scout, decoyChecks, eventStream, controlStream, controlRelay } = services
  const { channelDirectory, dispatcher, outbox } = services
  let lastCheckpoint = 0
  return [
    {
      // Two readings a second: a key revoked elsewhere is refused, and its streams end, within one.
      name: 'keys',
      everyMs: 500,
      run: async () => {
        await keyring.refresh()
        const isValid = (keyId: string) => keyId === open.keyId || keyring.isValid(keyId)
        eventStream.endInvalid(isValid)
        controlStream.endInvalid(isValid)
      },
    },
    { name: 'control', everyMs: 1_000, run: () => controlRelay.run() },
    { name: 'stream-reconcile', everyMs: 1_000, run: () => eventStream.reconcile() },
    { name: 'key-usage', everyMs: 60_000, run: () => keyring.flushUsage() },
    {
      // Alerts written here wake the dispatcher themselves; this finds those of others, and what is due by now.
      name: 'alerts',
      everyMs: 1_000,
      run: async () => {
        await channelDirectory.refresh()
        await dispatcher.run()
      },
    },
    { name: 'kill-results', everyMs: 1_000, run: () => reportKillResults(deps, outbox) },
    { name: 'alert-health', everyMs: 10_000, run: () => watchChannels(deps, outbox, channelDirectory) },
    { name: 'alert-retention', everyMs: 60_000, run: () => forgetOldAlerts(deps) },
    { name: 'decoy-patterns', everyMs: 1_000, run: () => decoyChecks.refresh() },
    {
      name: 'stream-keep-alive',
      everyMs: 30_000,
      run: () => {
        eventStream.keepAlive()
        controlStream.keepAlive()
      },
    },
    {
      name: 'scout',
      everyMs: scoutEveryMs,
      run: async () => {
        await scout.sweep()
        await showFleet(deps)
        await attestWeekly(deps)
      },
    },
    { name: 'event-index', everyMs: 1_000, run: () => indexEvents(deps.database, ingest.isBusy) },
    { name: 'retention', everyMs: 60_000, run: () => forgetOldEvents(deps) },
    { name: 'sessions', everyMs: 60_000, run: () => forgetStaleSessions(deps) },
    {
      // Logs leave the machine: a checkpoint there betrays whoever rewrites the audit log here.
      name: 'audit-checkpoint',
      everyMs: 60_000,
      run: async () => {
        const checkpoint = await auditCheckpoint(deps.database.db, deps.clock.now())
        if (checkpoint.seq === lastCheckpoint) return
        lastCheckpoint = checkpoint.seq
        deps.log.info({ checkpoint: formatCheckpoint(checkpoint) }, 'audit checkpoint')
      },
    },
  ]
}

/** Calls each job once and then by its timer, never while it still runs. A fault is logged and the next turn tries again. */
export function startJobs(jobs: Job[], { log, metrics }: Pick<Deps, 'log' | 'metrics'>): () => Promise<void> {
  const running = new Map<string, Promise<void>>()
  const once = (job: Job) => {
    if (running.has(job.name)) return
    const work = new Promise<void>((resolve) => resolve(job.run()))
      .then(
        () => metrics.jobRuns.inc({ name: job.name, result: 'ok' }),
        (fault) => {
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
    await Promise.all(running.values())
  }
}
