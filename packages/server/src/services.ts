import { withoutSecrets } from './config.ts'
import type { Deps } from './deps.ts'
import { type Alerting, createAlerting } from './features/alerts/open-alerts.ts'
import { ChainWatch } from './features/audit/chain-watch.ts'
import { type Baselines, createBaselines } from './features/detection/baselines.ts'
import { FleetBaselines } from './features/detection/fleet-baselines.ts'
import { createJudge } from './features/detection/judge.ts'
import { createScout, type Scout } from './features/detection/scout.ts'
import { CountedReports } from './features/events/counted-reports.ts'
import { createEvents, type Events } from './features/events/events.ts'
import { createIngest, type Ingest } from './features/events/ingest.ts'
import { createDecoyChecks, type DecoyChecks } from './features/honeypots/check.ts'
import { completeFolders } from './features/honeypots/honeypots.ts'
import { FleetLists } from './features/instances/fleet-list.ts'
import { ActivityCounts } from './features/instances/history.ts'
import { createHeartbeats, type Heartbeats } from './features/instances/instances.ts'
import { SharedFleets } from './features/instances/shared-fleet.ts'
import { Keyring } from './features/keys/keyring.ts'
import { Probing } from './features/keys/probing.ts'
import { Quotas } from './features/keys/quotas.ts'
import { type Acks, createAcks } from './features/kill-switch/acks.ts'
import { ControlRelay } from './features/kill-switch/control-relay.ts'
import { ControlStates } from './features/kill-switch/control-states.ts'
import { ControlStream } from './features/kill-switch/control-stream.ts'
import { EventStream } from './features/stream/stream.ts'
import { JobRuns } from './features/system/job-runs.ts'
import { StreamBacklog } from './http/stream-backlog.ts'

/** The parts of features that keep something in memory: queues, caches, open streams. */
export interface Services extends Alerting {
  ingest: Ingest
  activityCounts: ActivityCounts
  countedReports: CountedReports
  events: Events
  fleetBaselines: FleetBaselines
  baselines: Baselines
  scout: Scout
  decoyChecks: DecoyChecks
  heartbeats: Heartbeats
  acks: Acks
  chainWatch: ChainWatch
  jobRuns: JobRuns
  fleetLists: FleetLists
  sharedFleets: SharedFleets
  keyring: Keyring
  quotas: Quotas
  probing: Probing
  controlStates: ControlStates
  controlStream: ControlStream
  streamBacklog: StreamBacklog
  controlRelay: ControlRelay
  eventStream: EventStream
}

export async function openServices(deps: Deps): Promise<Services> {
  const alerting = createAlerting(deps)
  const { outbox } = alerting
  const activityCounts = new ActivityCounts(deps)
  const ingest = createIngest(deps, outbox, (events, at) => activityCounts.noteEvents(events, at))
  const countedReports = new CountedReports(deps, ingest)
  const quotas = new Quotas(deps, countedReports)
  const streamBacklog = new StreamBacklog(deps.metrics)
  const controlStream = new ControlStream(deps, streamBacklog)
  const fleetBaselines = new FleetBaselines(deps)
  const parts = { ingest, outbox, activityCounts, countedReports, quotas, controlStream, fleetBaselines }
  const services = {
    ...parts,
    events: createEvents(deps, { ...parts, judge: createJudge(deps, parts) }),
    baselines: createBaselines(deps, parts),
    scout: createScout(deps, parts),
    decoyChecks: createDecoyChecks(deps, parts),
    heartbeats: createHeartbeats(deps, parts),
    acks: createAcks(deps, parts),
    chainWatch: new ChainWatch(deps, parts),
    jobRuns: new JobRuns(deps.clock, (text) => withoutSecrets(deps.config, text)),
    fleetLists: new FleetLists(deps),
    sharedFleets: new SharedFleets(deps),
    keyring: new Keyring(deps, quotas),
    probing: new Probing(deps, countedReports),
    controlStates: new ControlStates(deps),
    streamBacklog,
    controlRelay: new ControlRelay(deps),
    eventStream: new EventStream(deps, streamBacklog),
    ...alerting,
  }
  await completeFolders(deps)
  await Promise.all([
    services.keyring.refresh(),
    services.decoyChecks.refresh(),
    services.eventStream.open(),
    services.routingTable.open(),
    services.dispatcher.open(),
  ])
  return services
}
