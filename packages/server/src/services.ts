import { describeConfig, withoutConfiguredSecrets } from './config/config.ts'
import { readPoints } from './config/enforcement-points.ts'
import { readMappingFile } from './config/roles-file.ts'
import type { Deps } from './deps.ts'
import { createAlerting } from './features/alerts/open-alerts.ts'
import { findRequest } from './features/approvals/approvals.ts'
import { TelegramPresses } from './features/approvals/telegram-presses.ts'
import { ChainWatch } from './features/audit/chain-watch.ts'
import { createAutoSuspension } from './features/auto-suspension/auto-suspension.ts'
import { openChain } from './features/chain/open-chain.ts'
import { createCommandLogins } from './features/command-logins/command-logins.ts'
import { ChildSuspensions } from './features/containments/child-suspensions.ts'
import { createRegistrationStops } from './features/containments/registration-stops.ts'
import { createPendingResumes } from './features/containments/stop-verdicts.ts'
import { ContainmentWork } from './features/containments/work.ts'
import { createAcks } from './features/control/acks.ts'
import { ControlRelay } from './features/control/control-relay.ts'
import { ControlStates } from './features/control/control-states.ts'
import { ControlStream } from './features/control/control-stream.ts'
import { createHeartbeatAcks } from './features/control/heartbeat-acks.ts'
import { OpenStreams } from './features/control/open-streams.ts'
import { createBaselines } from './features/detection/baselines.ts'
import { createBlindness } from './features/detection/blindness.ts'
import { FleetBaselines } from './features/detection/fleet-baselines.ts'
import { createJudge } from './features/detection/judge.ts'
import { createScout } from './features/detection/scout.ts'
import { createDrillAnswers } from './features/drills/answers.ts'
import { createLevers } from './features/drills/levers.ts'
import { ModelDrills } from './features/drills/model-drills.ts'
import { DrillSender } from './features/drills/sender.ts'
import { Enforcement } from './features/enforcement/enforcement.ts'
import { CountedReports } from './features/events/counted-reports.ts'
import { EventIndex } from './features/events/event-index.ts'
import { createEvents } from './features/events/events.ts'
import { createIngest } from './features/events/ingest.ts'
import { LogFollower } from './features/events/log-follower.ts'
import { ModelBudgets } from './features/gateway/budgets.ts'
import { UseReports } from './features/gateway/use-reports.ts'
import { createDecoyChecks } from './features/honeypots/check.ts'
import { DecoyFetches } from './features/honeypots/decoy-fetches.ts'
import { completeFolders } from './features/honeypots/honeypots.ts'
import { createReportedCalls } from './features/honeypots/reported-calls.ts'
import { createBootWatch } from './features/instances/boots.ts'
import { FleetTagCounts } from './features/instances/fleet-groups.ts'
import { FleetLists } from './features/instances/fleet-list.ts'
import { FleetPages } from './features/instances/fleet-pages.ts'
import { FleetParts } from './features/instances/fleet-parts.ts'
import { FleetSummaries } from './features/instances/fleet-summary.ts'
import { HeardBy } from './features/instances/heard-by.ts'
import { ActivityCounts } from './features/instances/history.ts'
import { createHeartbeats } from './features/instances/instances.ts'
import { Keyring } from './features/keys/keyring.ts'
import { Probing } from './features/keys/probing.ts'
import { Quotas } from './features/keys/quotas.ts'
import { MailRecipients } from './features/people/mail-recipients.ts'
import { People } from './features/people/people.ts'
import { RoleTable } from './features/people/role-mappings.ts'
import { createPolicyFiles } from './features/policies/policy-files.ts'
import { PolicySets } from './features/policies/policy-sets.ts'
import { LogReplays } from './features/rules/log-replay.ts'
import { RuleResponder } from './features/rules/responder.ts'
import { createRuleFiles } from './features/rules/rule-files.ts'
import { RuleRunner } from './features/rules/runner.ts'
import { Search } from './features/search/search.ts'
import { Evaluation } from './features/sign-in/evaluation.ts'
import { createKeySignIns } from './features/sign-in/key-sign-ins.ts'
import { createLogout } from './features/sign-in/logout.ts'
import { createPasskeySignIn } from './features/sign-in/passkey-sign-in.ts'
import { Passkeys } from './features/sign-in/passkeys.ts'
import { Provider, providerSettings } from './features/sign-in/provider.ts'
import { createPeopleSignIn } from './features/sign-in/sign-in.ts'
import { EventStream } from './features/stream/stream.ts'
import { SuspendedAgents } from './features/suspensions/suspended-agents.ts'
import { createSuspendedVersion } from './features/suspensions/suspended-version.ts'
import { SuspensionFacts } from './features/suspensions/suspension-facts.ts'
import { createSuspensionStates } from './features/suspensions/suspensions.ts'
import { createSuspensionWatch } from './features/suspensions/watch.ts'
import { JobRuns } from './features/system/job-runs.ts'
import { Telemetry } from './features/telemetry/telemetry.ts'
import { ClientCalls } from './features/witnesses/client-calls.ts'
import { MismatchWatch } from './features/witnesses/mismatch-watch.ts'
import { StreamBacklog } from './http/stream-backlog.ts'

/** Stateful parts of the features: queues, caches, open streams. */
export type Services = Awaited<ReturnType<typeof createServices>>

async function createServices(deps: Deps) {
  const recipients = new MailRecipients(deps, async () => (await parts.roleTable.read()).mappings)
  const alerting = createAlerting(deps, { requestOf: (id) => findRequest(deps, id), recipients })
  const { outbox, protectionAlerts } = alerting
  const activityCounts = new ActivityCounts(deps)
  const heardBy = new HeardBy(deps)
  const suspendedAgents = new SuspendedAgents(deps)
  const ingest = createIngest(deps, outbox, (events, at) => {
    activityCounts.noteEvents(events, at)
    heardBy.noteEvents(events, at)
    suspendedAgents.noteStored(events)
  })
  const countedReports = new CountedReports(deps, ingest)
  const quotas = new Quotas(deps, countedReports)
  const streamBacklog = new StreamBacklog(deps.metrics)
  const suspensionFacts = new SuspensionFacts(deps)
  const controlStream = new ControlStream(deps, streamBacklog, suspensionFacts)
  const fleetBaselines = new FleetBaselines(deps)
  const enforcement = new Enforcement(deps, { points: readPoints(deps.config), ingest })
  const settings = providerSettings(deps.config)
  const parts = {
    ingest,
    enforcement,
    outbox,
    protectionAlerts,
    activityCounts,
    heardBy,
    countedReports,
    quotas,
    controlStream,
    fleetBaselines,
    suspensionFacts,
    suspendedAgents,
    streamBacklog,
    logFollower: new LogFollower(deps),
    policySets: new PolicySets(deps),
    provider: settings && new Provider(settings, deps.clock),
    roleTable: new RoleTable(deps, { protectionAlerts, readFile: readMappingFile }),
    logReplays: new LogReplays(deps),
    suspensionStates: createSuspensionStates(deps, { enforcement }),
    levers: createLevers(deps, { enforcement }),
    suspendedVersion: createSuspendedVersion({ suspendedAgents, suspensionFacts }),
    heartbeatAcks: createHeartbeatAcks(deps),
    pendingResumes: createPendingResumes(deps.database),
    registrationStops: createRegistrationStops(deps, { enforcement, suspensionFacts }),
    childSuspensions: new ChildSuspensions(deps, { enforcement, suspensionFacts, outbox }),
  }
  const autoSuspension = createAutoSuspension(deps, parts)
  const keyring = new Keyring(deps, quotas)
  const passkeys = new Passkeys(deps, { keyring })
  const keySignIns = createKeySignIns(deps, parts)
  const peopleSignIn = createPeopleSignIn(deps, parts)
  const decoyChecks = createDecoyChecks(deps, { ...parts, autoSuspension })
  const reportedCalls = createReportedCalls({ decoyChecks, quotas })
  const events = createEvents(deps, { ...parts, autoSuspension, reportedCalls, judge: createJudge(deps, parts) })
  const fleetParts = { ...parts, fleetParts: new FleetParts(deps) }
  const heartbeats = createHeartbeats(deps, { ...parts, bootWatch: createBootWatch(deps, parts) })
  return {
    ...parts,
    autoSuspension,
    decoyChecks,
    reportedCalls,
    events,
    useReports: new UseReports(deps, { events }),
    baselines: createBaselines(deps, parts),
    scout: createScout(deps, parts),
    blindness: createBlindness(deps, parts),
    decoyFetches: new DecoyFetches(deps, parts),
    heartbeats,
    mismatchWatch: new MismatchWatch(deps, parts),
    telemetry: new Telemetry(deps, { events, heartbeats, heardBy, clientCalls: new ClientCalls(deps, parts) }),
    acks: createAcks(deps, parts),
    containmentWork: new ContainmentWork(deps, parts),
    suspensionWatch: createSuspensionWatch(deps, parts),
    chainWatch: new ChainWatch(deps, parts),
    jobRuns: new JobRuns(deps.clock, (text) => withoutConfiguredSecrets(deps.config, text)),
    fleetLists: new FleetLists(deps),
    fleetPages: new FleetPages(deps, fleetParts),
    fleetSummaries: new FleetSummaries(deps, fleetParts),
    fleetTagCounts: new FleetTagCounts(deps, fleetParts),
    keyring,
    people: new People(deps),
    peopleSignIn,
    passkeys,
    keySignIns,
    commandLogins: createCommandLogins(deps, { peopleSignIn, keySignIns }),
    passkeySignIn: createPasskeySignIn(deps, { ...parts, passkeys, keySignIns }),
    evaluation: new Evaluation(deps, { ...parts, peopleSignIn }),
    providerLogout: createLogout(deps, parts),
    eventIndex: new EventIndex(deps),
    probing: new Probing(deps, countedReports),
    controlStates: new ControlStates(deps),
    openStreams: new OpenStreams(deps, parts),
    drillSender: new DrillSender(deps, parts),
    drillAnswers: createDrillAnswers(deps, parts),
    modelDrills: new ModelDrills(deps),
    modelBudgets: new ModelBudgets(deps, parts),
    chain: await openChain(deps),
    controlRelay: new ControlRelay(deps, parts),
    eventStream: new EventStream(deps, parts),
    policyFiles: createPolicyFiles(deps, parts),
    ruleFiles: createRuleFiles(deps, parts),
    ruleRunner: new RuleRunner(deps, {
      ...parts,
      ruleResponder: new RuleResponder(deps, { ...parts, autoSuspension }),
    }),
    search: new Search(deps, { configuration: describeConfig(deps.config) }),
    ...alerting,
    telegramPresses: new TelegramPresses(deps, { ...parts, ...alerting }),
  }
}

export async function openServices(deps: Deps): Promise<Services> {
  const services = await createServices(deps)
  await completeFolders(deps)
  await Promise.all([
    services.keyring.refresh(),
    services.policySets.open(),
    services.decoyChecks.refresh(),
    services.decoyFetches.refresh(),
    services.logFollower.open(),
    services.eventStream.open(),
    services.routingTable.open(),
    services.messageDelivery.open(),
    services.enforcement.open(),
  ])
  return services
}

/** Services of a process that only passes calls of models on: it follows no events, and delivers nothing. */
export async function openGatewayServices(deps: Deps): Promise<Services> {
  const services = await createServices(deps)
  const { keyring, decoyChecks, routingTable, dispatcher, enforcement } = services
  // The table decides which alerts are stored; the processes of the service send them.
  await Promise.all([keyring.refresh(), decoyChecks.refresh(), routingTable.refresh()])
  await Promise.all([dispatcher.close(0), enforcement.close(0)])
  return services
}

/** Ends the streams, so that no request lasts. `delayMs`: after which their clients reconnect. */
export function closeStreams({ logFollower, eventStream, controlStream }: Services, delayMs: () => number): void {
  // First, because no row may reach a stream that has ended.
  logFollower.close()
  eventStream.close(delayMs)
  controlStream.close(delayMs)
}

/** What shutdown does after the last request, in this order: a step writes what those before it still brought. */
const endings: Record<string, (services: Services, options: Ending) => Promise<unknown>> = {
  'the periodic jobs': (_, { stopJobs }) => stopJobs(),
  'the lease of the rules': ({ ruleRunner }) => ruleRunner.close(),
  'counted reports': ({ countedReports }) => countedReports.flush(),
  'fetches of decoy URLs': ({ decoyFetches }) => decoyFetches.whenIdle(),
  'automatic suspensions': ({ autoSuspension }) => autoSuspension.whenIdle(),
  // They store events.
  'the use of budgets': ({ modelBudgets }) => modelBudgets.whenIdle(),
  'queued writes': ({ ingest, heartbeats, acks, containmentWork, drillAnswers }) =>
    Promise.all([ingest, heartbeats, acks, containmentWork, drillAnswers].map((queue) => queue.whenIdle())),
  'open streams': ({ openStreams }) => openStreams.end(),
  'facts of suspensions': ({ suspensionFacts }) => suspensionFacts.write(),
  'activity of suspended agents': ({ suspendedAgents }) => suspendedAgents.writeUnlogged(),
  'by what agents are heard': ({ heardBy }) => heardBy.write(),
  'the history of the last minute': ({ activityCounts }) => activityCounts.write(),
  deliveries: ({ dispatcher, enforcement }, { graceMs }) =>
    Promise.all([dispatcher.close(graceMs), enforcement.close(graceMs)]),
  'the usage of keys': ({ keyring }) => keyring.flushUsage(),
}

interface Ending {
  stopJobs: () => Promise<void>
  /** How long running attempts of deliveries may still take. */
  graceMs: number
}

/** Ends the jobs and everything that holds something in memory. A step that fails is logged and does not stop the others. */
export async function closeServices(services: Services, { log }: Pick<Deps, 'log'>, options: Ending): Promise<void> {
  // A slow node must not delay the shutdown.
  services.chain?.close()
  for (const [what, end] of Object.entries(endings)) {
    await end(services, options).catch((fault) => log.warn({ err: fault, what }, 'shutdown: a step failed'))
  }
}
