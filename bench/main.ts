import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { describeMachine } from './machine.ts'
import { measureAlerts } from './parts/alerts.ts'
import { measureApprovals } from './parts/approvals.ts'
import { measureAttacks } from './parts/attacks.ts'
import { measureBatch } from './parts/batch.ts'
import { measureCluster } from './parts/cluster.ts'
import { measureContainment } from './parts/containment.ts'
import { measureDashboard } from './parts/dashboard.ts'
import { measureDetector } from './parts/detector.ts'
import { measureFalseAlarms } from './parts/false-alarms.ts'
import { measureFleets } from './parts/fleet.ts'
import { measureGateway } from './parts/gateway.ts'
import { measureGuards } from './parts/guards.ts'
import { measureHoneypots } from './parts/honeypots.ts'
import { measureIncident } from './parts/incident.ts'
import { measureIngest } from './parts/ingest.ts'
import { measureLargeDashboard } from './parts/large-dashboard.ts'
import { measureOtlp } from './parts/otlp.ts'
import { measurePolicy } from './parts/policy.ts'
import { measurePoll } from './parts/poll.ts'
import { measurePostgres } from './parts/postgres.ts'
import { measureRules } from './parts/rules.ts'
import { measureSdk } from './parts/sdk.ts'
import { measureSearch } from './parts/search.ts'
import { measureSigma } from './parts/sigma.ts'
import { measureStartup } from './parts/startup.ts'
import { measureStatus } from './parts/status.ts'
import { measureStream } from './parts/stream.ts'
import { measureSupervisor } from './parts/supervisor.ts'
import { type Figure, machineText, type PartReport, partText, verdict } from './report.ts'
import { useServiceEntry } from './service.ts'

const parts: Record<string, () => Promise<Figure[]>> = {
  ingest: measureIngest,
  batch: measureBatch,
  status: measureStatus,
  poll: measurePoll,
  stream: measureStream,
  honeypots: measureHoneypots,
  alerts: measureAlerts,
  attacks: measureAttacks,
  dashboard: measureDashboard,
  'large-dashboard': () =>
    measureLargeDashboard({ agents: Number(options.agents), events: Number(options.events), dataDir: options.data }),
  search: measureSearch,
  fleet: () => measureFleets(Number(options.minutes)),
  startup: measureStartup,
  detector: measureDetector,
  incident: measureIncident,
  postgres: measurePostgres,
  cluster: measureCluster,
  containment: measureContainment,
  approvals: measureApprovals,
  gateway: measureGateway,
  otlp: measureOtlp,
  supervisor: measureSupervisor,
  rules: measureRules,
  'false-alarms': () => measureFalseAlarms(options.sessions),
  sigma: () => measureSigma(options.sigma),
  sdk: measureSdk,
  policy: measurePolicy,
  guards: () => measureGuards(options.data),
}

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: 'boolean', default: false },
    service: { type: 'string' },
    sessions: { type: 'string' },
    sigma: { type: 'string' },
    data: { type: 'string' },
    agents: { type: 'string', default: '250000' },
    events: { type: 'string', default: '10000000' },
    minutes: { type: 'string', default: '1' },
  },
})
const unknown = positionals.filter((name) => !Object.hasOwn(parts, name))
if (unknown.length > 0) {
  console.error(`Unknown part: ${unknown.join(', ')}. Parts: ${Object.keys(parts).join(', ')}`)
  process.exit(2)
}
if (options.service !== undefined) useServiceEntry(resolve(options.service))

const machine = describeMachine()
if (!options.json) console.log(machineText(machine))
const reports: PartReport[] = []
for (const name of positionals.length > 0 ? positionals : Object.keys(parts)) {
  const startedAt = performance.now()
  const report: PartReport = { part: name, seconds: 0, figures: [] }
  try {
    report.figures = await parts[name]!()
  } catch (error) {
    report.crash = error instanceof Error ? (error.stack ?? error.message) : String(error)
  }
  report.seconds = (performance.now() - startedAt) / 1000
  reports.push(report)
  if (!options.json) console.log(partText(report))
}
if (options.json) {
  const withVerdicts = reports.map((report) => ({
    ...report,
    figures: report.figures.map((figure) => ({ verdict: verdict(figure), ...figure })),
  }))
  console.log(JSON.stringify({ machine, parts: withVerdicts }, null, 2))
}
// Children of a crashed part still run; the exit terminates them. A missed target is a result, not a failure.
process.exit(reports.some((report) => report.crash !== undefined) ? 1 : 0)
