import { dayMs, hourMs, minuteMs } from '../../clock.ts'
import type { Baseline, Finding } from './baseline.ts'
import { judge } from './judge-sample.ts'

/** Deterministic random numbers in [0, 1): mulberry32. */
type Random = () => number
export function randomOf(seed: number): Random {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

function gaussian(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
}

export function poisson(random: Random, mean: number): number {
  if (mean <= 0) return 0
  // A sum of Poisson numbers is Poisson distributed; with a larger mean the product below would underflow.
  if (mean > 400) return poisson(random, mean / 2) + poisson(random, mean / 2)
  const limit = Math.exp(-mean)
  let count = 0
  for (let product = random(); product > limit; product *= random()) count++
  return count
}

/** Normal traffic of a metric: returns the sample at a time. */
type Traffic = (at: number) => number
export interface Kind {
  name: string
  /** Mean of counts so rare that only their frequency can rise. */
  mean?: number
  start(random: Random, scale: number): Traffic
}

const isDay = (at: number) => Math.floor((at % dayMs) / hourMs) >= 7 && Math.floor((at % dayMs) / hourMs) < 23
const isWorkday = (at: number) => (Math.floor(at / dayMs) + 3) % 7 < 5
const isWorkingTime = (at: number) => isWorkday(at) && at % dayMs >= 8 * hourMs && at % dayMs < 18 * hourMs

export const kinds: readonly Kind[] = [
  { name: 'Poisson, mean 2', start: (random, scale) => () => poisson(random, 2 * scale) },
  { name: 'Poisson, mean 20', start: (random, scale) => () => poisson(random, 20 * scale) },
  { name: 'rare events, mean 0.05', mean: 0.05, start: (random) => () => poisson(random, 0.05) },
  { name: 'log-normal, σ 0.5', start: (random, scale) => () => 20 * scale * Math.exp(0.5 * gaussian(random)) },
  { name: 'log-normal, σ 1', start: (random, scale) => () => 20 * scale * Math.exp(gaussian(random)) },
  { name: 'day and night, 30 to 1', start: (random, scale) => (at) => poisson(random, isDay(at) ? 30 * scale : 1) },
  { name: 'bursty', start: (random, scale) => () => (random() < 0.8 ? 0 : poisson(random, 12 * scale)) },
]

export const mixtures: readonly Kind[] = [
  {
    name: 'sine of the day',
    start: (random, scale) => (at) => poisson(random, scale * (15.5 - 14.5 * Math.cos((2 * Math.PI * at) / dayMs))),
  },
  {
    name: 'working days',
    start: (random, scale) => (at) => poisson(random, isWorkingTime(at) ? 25 * scale : 0.5),
  },
  {
    name: 'bursty working days',
    start: (random, scale) => (at) => {
      if (!isWorkingTime(at)) return poisson(random, 0.1)
      return random() < 0.6 ? 0 : Math.round(10 * scale * Math.exp(0.7 * gaussian(random)))
    },
  },
  {
    name: 'log-normal by day, rare by night',
    start: (random, scale) => (at) => (isDay(at) ? 20 * scale * Math.exp(gaussian(random)) : poisson(random, 0.05)),
  },
  {
    name: 'sessions of an hour',
    start: (random, scale) => {
      let isBusy = false
      return () => {
        if (random() < (isBusy ? 1 / 12 : 1 / 48)) isBusy = !isBusy
        return isBusy ? poisson(random, 15 * scale) : 0
      }
    },
  },
  {
    name: 'Poisson 2 and rare bursts of 20',
    start: (random, scale) => () => poisson(random, 2) + (random() < 0.02 ? poisson(random, 20 * scale) : 0),
  },
]

const sampleMs = 5 * minuteMs
/** A Monday. */
const startOfSimulation = Date.UTC(2026, 0, 5)
/** Agents of one kind differ in volume. */
const scales = [1, 1, 0.3, 4, 20]

/** Feeds a metric of one agent to the detector, sample by sample. */
export class Feed {
  readonly random: Random
  readonly #traffic: Traffic
  baseline: Baseline | null = null
  at: number

  constructor(kind: Kind, agent: number, seed: number) {
    this.random = randomOf(Math.imul(seed, 7919) + agent * 104_729)
    this.#traffic = kind.start(this.random, scales[agent % scales.length]!)
    this.at = startOfSimulation + Math.floor(this.random() * 24) * hourMs
  }

  /** Returns the sample of normal traffic at the current time. */
  normal(): number {
    return this.#traffic(this.at)
  }

  report(value: number): Finding[] {
    const judged = judge(this.baseline, { value, at: this.at }, null, () => '')
    this.baseline = judged.baseline
    this.at += sampleMs
    return judged.findings
  }

  /** Reports normal traffic, modified by `change`, for `lengthMs`. */
  run(lengthMs: number, onFinding: (finding: Finding) => void = () => {}, change = (value: number) => value): void {
    for (const end = this.at + lengthMs; this.at < end; ) {
      for (const finding of this.report(change(this.normal()))) onFinding(finding)
    }
  }
}

export interface Size {
  agents: number
  days: number
  seed: number
}

/** Counts what normal traffic raises after its first day, without a baseline to borrow from. */
export function simulateNormal(kind: Kind, { agents, days, seed }: Size): { warnings: number; criticals: number } {
  const counts = { warnings: 0, criticals: 0 }
  for (let agent = 0; agent < agents; agent++) {
    const feed = new Feed(kind, agent, seed)
    feed.run(dayMs)
    feed.run((days - 1) * dayMs, (finding) => {
      if (finding.kind === 'level') counts.warnings++
      else if (finding.kind !== 'ended') counts[finding.severity === 'critical' ? 'criticals' : 'warnings']++
    })
  }
  return counts
}

/** Samples of normal traffic that define the level of a runaway, and samples of a runaway: 15 minutes. */
const measured = 4_032
const runawaySamples = 3

/** Returns the largest of 10 times the mean, 3 times the 99.9th percentile, and 5. */
function runawayLevel(feed: Feed): number {
  const values = Array.from({ length: measured }, (_, index) => {
    feed.at += (index % 2016 === 0 ? -2015 : 1) * sampleMs
    return feed.normal()
  }).sort((one, other) => one - other)
  const mean = values.reduce((sum, value) => sum + value, 0) / measured
  return Math.max(10 * mean, 3 * values[Math.floor(measured * 0.999)]!, 5)
}

/**
 * Simulates runaways after one, two or eight days of learning, at any hour; `delays` are the samples until each report.
 */
export function simulateRunaways(kind: Kind, { agents, seed }: Size): { tried: number; delays: number[] } {
  const delays: number[] = []
  for (let agent = 0; agent < agents; agent++) {
    const level = runawayLevel(new Feed(kind, agent, seed))
    const feed = new Feed(kind, agent, seed)
    feed.run([1, 2, 8][agent % 3]! * dayMs + Math.floor(feed.random() * 288) * sampleMs)
    for (let sample = 1; sample <= runawaySamples; sample++) {
      if (!feed.report(level).some(({ kind: found }) => found === 'began' || found === 'rose')) continue
      delays.push(sample)
      break
    }
  }
  return { tried: agents, delays: delays.sort((one, other) => one - other) }
}

export interface SimulatedKind {
  kind: string
  /** Warnings, and criticals below, per 1,000 agents and day. */
  warnings: number
  criticals: number
  /** Reported runaways in percent; `samples` is the median number of samples until the report. */
  found: number
  samples: number
}

/** Returns a table of the detector's results for each kind of traffic. */
export function simulateDetector(size: Size): SimulatedKind[] {
  return [...kinds, ...mixtures].map((kind) => {
    const { warnings, criticals } = simulateNormal(kind, size)
    const { tried, delays } = simulateRunaways(kind, size)
    const aDay = 1_000 / (size.agents * (size.days - 1))
    const rounded = (count: number) => Math.round(count * aDay * 10) / 10
    return {
      kind: kind.name,
      warnings: rounded(warnings),
      criticals: rounded(criticals),
      found: Math.round((1_000 * delays.length) / tried) / 10,
      samples: delays[delays.length >> 1] ?? 0,
    }
  })
}
