import { withoutSecrets } from './config.ts'
import type { Deps } from './deps.ts'
import { readPoints } from './enforcement-points.ts'
import { type Alerting, createAlerting } from './features/alerts/open-alerts.ts'
import { ChainWatch } from './features/audit/chain-watch.ts'
import type { Chain } from './features/chain/chain.ts'
import { openChain } from './features/chain/open-chain.ts'
import { type AutoSuspension, createAutoSuspension } from './features/containment/auto-suspension.ts'
import { createDrillAnswers, type DrillAnswers } from './features/containment/drill-answers.ts'
import { DrillSender } from './features/containment/drill-sender.ts'
import { Enforcement } from './features/containment/enforcement/enforcement.ts'
import { createPendingResumes } from './features/containment/holds.ts'
import { createRegistrationStops } from './features/containment/registration-stops.ts'
import { SuspendedAgents } from './features/containment/suspended-agents.ts'
import { createContainments } from './features/containment/suspensions.ts'
import { type ContainmentWatch, createContainmentWatch } from './features/containment/watch.ts'
import { ContainmentWork } from './features/containment/work.ts'
import { type Baselines, createBaselines } from './features/detection/baselines.ts'
import { type Blindness, createBlindness } from './features/detection/blindness.ts'
import { FleetBaselines } from './features/detection/fleet-baselines.ts'
import { createJudge } from './features/detection/judge.ts'
import { createScout, type Scout } from './features/detection/scout.ts'
import { CountedReports } from './features/events/counted-reports.ts'
import { EventIndex } from './features/events/event-index.ts'
import { createEvents, type Events } from './features/events/events.ts'
import { createIngest, type Ingest } from './features/events/ingest.ts'
import { createDecoyChecks, type DecoyChecks } from './features/honeypots/check.ts'
import { DecoyFetches } from './features/honeypots/decoy-fetches.ts'
import { completeFolders } from './features/honeypots/honeypots.ts'
import { createBootWatch } from './features/instances/boots.ts'
import { FleetLists } from './features/instances/fleet-list.ts'
import { ActivityCounts } from './features/instances/history.ts'
import { type Containments, createHeartbeats, type Heartbeats } from './features/instances/instances.ts'
import { SharedFleets } from './features/instances/shared-fleet.ts'
import { Keyring } from './features/keys/keyring.ts'
import { Probing } from './features/keys/probing.ts'
import { Quotas } from './features/keys/quotas.ts'
import { type Acks, createAcks } from './features/kill-switch/acks.ts'
import { ControlRelay } from './features/kill-switch/control-relay.ts'
import { ControlStates } from './features/kill-switch/control-states.ts'
import { ControlStream } from './features/kill-switch/control-stream.ts'
import { createHeartbeatAcks } from './features/kill-switch/heartbeat-acks.ts'
import type { PendingResumes } from './features/kill-switch/kill-switch.ts'
import { OpenStreams } from './features/kill-switch/open-streams.ts'
import { SuspensionFacts } from './features/kill-switch/suspension-facts.ts'
import { RuleResponder } from './features/rules/responder.ts'
import { RuleFiles } from './features/rules/rule-files.ts'
import { RuleRunner } from './features/rules/runner.ts'
import { EventStream } from './features/stream/stream.ts'
import { JobRuns } from './features/system/job-runs.ts'
import { StreamBacklog } from './http/stream-backlog.ts'

/** Stateful parts of the features: queues, caches, open streams. */
export interface Services extends Alerting {
  ingest: Ingest
  activityCounts: ActivityCounts
  countedReports: CountedReports
  eventIndex: EventIndex
  events: Events
  fleetBaselines: FleetBaselines
  baselines: Baselines
  scout: Scout
  blindness: Blindness
  autoSuspension: AutoSuspension
  decoyChecks: DecoyChecks
  decoyFetches: DecoyFetches
  heartbeats: Heartbeats
  acks: Acks
  containmentWork: ContainmentWork
  pendingResumes: PendingResumes
  chainWatch: ChainWatch
  jobRuns: JobRuns
  fleetLists: FleetLists
  sharedFleets: SharedFleets
  keyring: Keyring
  quotas: Quotas
  probing: Probing
  controlStates: ControlStates
  controlStream: ControlStream
  openStreams: OpenStreams
  drillSender: DrillSender
  drillAnswers: DrillAnswers
  streamBacklog: StreamBacklog
  controlRelay: ControlRelay
  suspensionFacts: SuspensionFacts
  suspendedAgents: SuspendedAgents
  containments: Containments
  containmentWatch: ContainmentWatch
  enforcement: Enforcement
  eventStream: EventStream
  /** Undefined if no chain is configured. */
  chain: Chain | undefined
  ruleFiles: RuleFiles
  ruleRunner: RuleRunner
}

export async function openServices(deps: Deps): Promise<Services> {
  const alerting = createAlerting(deps)
  const { outbox, protectionAlerts } = alerting
  const activityCounts = new ActivityCounts(deps)
  const suspendedAgents = new SuspendedAgents(deps)
  const ingest = createIngest(deps, outbox, (events, at) => {
    activityCounts.noteEvents(events, at)
    suspendedAgents.noteStored(events)
  })
  const countedReports = new CountedReports(deps, ingest)
  const quotas = new Quotas(deps, countedReports)
  const streamBacklog = new StreamBacklog(deps.metrics)
  const suspensionFacts = new SuspensionFacts(deps)
  const controlStream = new ControlStream(deps, streamBacklog, suspensionFacts)
  const fleetBaselines = new FleetBaselines(deps)
  const enforcement = new Enforcement(deps, { points: readPoints(deps.config), ingest })
  const parts = {
    ingest,
    enforcement,
    outbox,
    protectionAlerts,
    activityCounts,
    countedReports,
    quotas,
    controlStream,
    fleetBaselines,
    suspensionFacts,
    suspendedAgents,
    containments: createContainments(deps, { enforcement }),
    heartbeatAcks: createHeartbeatAcks(deps),
    pendingResumes: createPendingResumes(deps.database),
    registrationStops: createRegistrationStops(deps, { enforcement, suspensionFacts }),
  }
  const autoSuspension = createAutoSuspension({ ...deps, ...parts }, parts)
  const services = {
    ...parts,
    autoSuspension,
    events: createEvents(deps, { ...parts, autoSuspension, judge: createJudge(deps, parts) }),
    baselines: createBaselines(deps, parts),
    scout: createScout(deps, parts),
    blindness: createBlindness(deps, parts),
    decoyFetches: new DecoyFetches(deps, parts),
    decoyChecks: createDecoyChecks(deps, { ...parts, autoSuspension }),
    heartbeats: createHeartbeats(deps, { ...parts, bootWatch: createBootWatch(deps, parts) }),
    acks: createAcks(deps, parts),
    containmentWork: new ContainmentWork(deps, parts),
    containmentWatch: createContainmentWatch(deps, parts),
    chainWatch: new ChainWatch(deps, parts),
    jobRuns: new JobRuns(deps.clock, (text) => withoutSecrets(deps.config, text)),
    fleetLists: new FleetLists(deps),
    sharedFleets: new SharedFleets(deps, parts),
    keyring: new Keyring(deps, quotas),
    eventIndex: new EventIndex(deps),
    probing: new Probing(deps, countedReports),
    controlStates: new ControlStates(deps),
    openStreams: new OpenStreams(deps, parts),
    drillSender: new DrillSender(deps, parts),
    drillAnswers: createDrillAnswers(deps),
    streamBacklog,
    chain: await openChain(deps),
    controlRelay: new ControlRelay(deps, parts),
    eventStream: new EventStream(deps, streamBacklog),
    ruleFiles: new RuleFiles(deps, parts),
    ruleRunner: new RuleRunner(deps, {
      ...parts,
      ruleResponder: new RuleResponder({ ...deps, ...parts }, { ...parts, autoSuspension }),
    }),
    ...alerting,
  }
  await completeFolders(deps)
  await Promise.all([
    services.keyring.refresh(),
    services.decoyChecks.refresh(),
    services.decoyFetches.refresh(),
    services.eventStream.open(),
    services.routingTable.open(),
    services.dispatcher.open(),
    enforcement.open(),
  ])
  return services
}
