import { seededDraws } from '../../../../test-servers/seeded-draws.ts'
import { dayMs, hourMs, minuteMs } from '../clock.ts'
import { mayBeOutage, outageOf } from '../features/witnesses/collector.ts'
import {
  CallMatcher,
  judgeEveryMs,
  type Mismatch,
  type ReportedCall,
  type Side,
} from '../features/witnesses/mismatch.ts'

/** How telemetry of an agent is sampled: none, a share of traces (each a session), or a share of calls. */
type Sampling = { of: 'session' | 'call'; share: number } | undefined

/** What is removed, from when on. */
interface Attack {
  missing: Side
  at: number
}

const tools = ['bash', 'read', 'edit', 'grep', 'web-search', 'task']

interface Outcome {
  calls: number
  mismatches: (Mismatch & { foundAt: number })[]
}

/** Time in which something does not reach the service. */
interface Out {
  start: number
  ms: number
}

/**
 * Simulates an honest agent, with the distributions of docs/adr/0089: its calls, and when the service receives the report of
 * each side. Then runs the decision on them, as the service does.
 */
export function simulateAgent(seed: number, days: number, attack?: Attack): Outcome {
  const { calls, reports } = reportsOf(seed, days, attack)
  return { calls, mismatches: run(reports) }
}

/** `collector`: when the collector of the agent passes nothing on. */
function reportsOf(seed: number, days: number, attack?: Attack, collector: readonly Out[] = []) {
  const random = seededDraws(seed)
  const exponential = (mean: number) => -mean * Math.log(1 - random())
  const lognormal = (median: number, sigma: number) => {
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
    return median * Math.exp(sigma * normal)
  }
  const kind = random()
  const sampling: Sampling =
    kind < 0.1
      ? { of: 'session', share: 0.1 }
      : kind < 0.2
        ? { of: 'call', share: 0.1 }
        : kind < 0.25
          ? { of: 'call', share: 0.5 }
          : undefined
  const hasIds = random() < 0.6
  const hasSessions = hasIds || random() < 0.5
  const reports: ReportedCall[] = []
  let calls = 0
  // Time in which neither side reaches the service; telemetry is sent again, a hook's report is lost.
  const outages = Array.from({ length: days }, () => ({
    start: random() * days * dayMs,
    ms: 10_000 + exponential(30_000),
  }))
  const within = (outs: readonly Out[], at: number) => outs.find(({ start, ms }) => at >= start && at < start + ms)
  const isOut = (at: number) => within(outages, at)
  const batches = new Map<number, number | undefined>()
  /** When the batch arrives in which telemetry of this time is; undefined: never. */
  const arrivalOf = (end: number): number | undefined => {
    const sentAt = Math.ceil(end / 5_000) * 5_000
    if (!batches.has(sentAt)) {
      const out = isOut(sentAt) ?? within(collector, sentAt)
      const late = out ? out.start + out.ms - sentAt + exponential(5_000) : random() < 0.01 ? exponential(15_000) : 200
      batches.set(sentAt, random() < 0.002 || late > 60_000 ? undefined : sentAt + late)
    }
    return batches.get(sentAt)
  }
  for (let day = 0; day < days; day++) {
    if (day % 7 > 4) continue
    for (let session = 0; session < 5; session++) {
      const name = `${day}-${session}`
      let at = day * dayMs + 8 * hourMs + session * 2 * hourMs + random() * hourMs
      const isTraced = sampling?.of !== 'session' || random() < sampling.share
      const length = 1 + Math.floor(lognormal(25, 0.8))
      for (let number = 0; number < length; number++) {
        calls += 1
        const tool = tools[Math.floor(random() * tools.length)]!
        const id = hasIds ? `${name}-${number}` : null
        const ms =
          tool === 'task'
            ? exponential(5 * minuteMs)
            : random() < 0.01
              ? exponential(10 * minuteMs)
              : lognormal(1_000, 1.2)
        const isRemoved = (side: Side, when: number) => attack?.missing === side && when >= attack.at
        // No hook sees what the provider runs.
        const isHooked = tool !== 'web-search' && !isRemoved('client', at) && random() >= 0.002 && !isOut(at)
        if (isHooked) reports.push({ by: 'client', at: at + 100 + exponential(50), tool, session: name, id })
        const isSent = isTraced && (sampling?.of !== 'call' || random() < sampling.share) && !isRemoved('otlp', at + ms)
        // The process is killed with its last batch.
        const isKilled = number === length - 1 && random() < 0.1
        const arrives = isSent && !isKilled ? arrivalOf(at + ms) : undefined
        if (arrives !== undefined) {
          reports.push({ by: 'otlp', at: arrives, tool, session: hasSessions ? name : null, id })
        }
        const isParallel = tool === 'task' || random() < 0.15
        at += isParallel ? 500 : ms + (random() < 0.04 ? exponential(5 * minuteMs) : 1_000 + exponential(10_000))
      }
    }
  }
  reports.sort((one, next) => one.at - next.at)
  return { calls, reports }
}

/** How often a fleet is judged: less often than the service does, which finds nothing else. */
const fleetEveryMs = minuteMs / 4

interface FleetOutcome {
  /** Those of single agents. */
  mismatches: { seed: number; since: number; foundAt: number; missing: Side }[]
  /** When an outage of the collector was reported, and when its end. */
  outages: { since: number; foundAt: number; endedAt: number | undefined; silent: number; heard: number }[]
}

/** Simulates agents that share a collector, and runs the decision on all together, as the service does. */
export function simulateFleet(options: {
  agents: number
  firstSeed: number
  days: number
  collector: readonly Out[]
}): FleetOutcome {
  const { agents, firstSeed, days, collector } = options
  const fleet = Array.from({ length: agents }, (_, index) => {
    const seed = firstSeed + index
    const { reports } = reportsOf(seed, days, undefined, collector)
    return { seed, reports, next: 0, matcher: new CallMatcher(), open: new Set<Side>() }
  })
  const found: FleetOutcome = { mismatches: [], outages: [] }
  const end = Math.max(...fleet.map(({ reports }) => reports.at(-1)?.at ?? 0)) + 2 * minuteMs
  for (let now = fleetEveryMs; now < end; now += fleetEveryMs) {
    const judged = fleet.map((agent) => {
      for (; agent.reports[agent.next] && agent.reports[agent.next]!.at <= now; agent.next++) {
        agent.matcher.take(agent.reports[agent.next]!)
      }
      return { agent, mismatches: agent.matcher.judge(now) }
    })
    const states = fleet.flatMap(({ matcher }) => matcher.telemetry ?? [])
    const outage = outageOf(states)
    const last = found.outages.at(-1)
    const isOpen = last !== undefined && last.endedAt === undefined
    if (outage && !isOpen) found.outages.push({ ...outage, foundAt: now, endedAt: undefined })
    const isBack = isOpen && states.some((state) => 'shownAt' in state && state.shownAt > last.foundAt)
    if (outage) for (const { matcher } of fleet) matcher.noteOutage(true)
    if (!outage && isBack) {
      last.endedAt = now
      for (const { matcher } of fleet) matcher.noteOutage(false)
    }
    const isOut = outage !== undefined || (isOpen && !isBack)
    for (const { agent, mismatches } of judged) {
      for (const side of agent.open) if (!mismatches.some(({ missing }) => missing === side)) agent.open.delete(side)
      for (const { missing, since } of mismatches) {
        if (agent.open.has(missing) || (missing === 'otlp' && (isOut || isBack || mayBeOutage(since, states, now))))
          continue
        agent.open.add(missing)
        found.mismatches.push({ seed: agent.seed, since, foundAt: now, missing })
      }
    }
  }
  return found
}

/** Runs the decision on reports in the order of receipt. Each mismatch is returned once, until its side is heard again. */
function run(reports: readonly ReportedCall[]): Outcome['mismatches'] {
  const matcher = new CallMatcher()
  const found: Outcome['mismatches'] = []
  const open = new Set<Side>()
  const judge = (now: number) => {
    const mismatches = matcher.judge(now)
    for (const side of open) if (!mismatches.some(({ missing }) => missing === side)) open.delete(side)
    for (const mismatch of mismatches) {
      if (open.has(mismatch.missing)) continue
      open.add(mismatch.missing)
      found.push({ ...mismatch, foundAt: now })
    }
  }
  for (const [index, report] of reports.entries()) {
    matcher.take(report)
    // Between two reports nothing changes after the longest grace.
    const next = Math.min(reports[index + 1]?.at ?? Infinity, report.at + 2 * minuteMs)
    for (let now = report.at - (report.at % judgeEveryMs) + judgeEveryMs; now < next; now += judgeEveryMs) judge(now)
  }
  return found
}
