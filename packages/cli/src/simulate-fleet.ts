import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { type Client, createClient, type EventRow, WardlineError } from '@wardline/contract'
import { type Counts, createAgent, type DemoAgent } from './simulate-agent.ts'
import { seededRandom } from './simulate-random.ts'
import type { Figures, Findings, Summary } from './simulate-report.ts'
import { playStep, type Stage } from './simulate-steps.ts'
import { planStory } from './simulate-story.ts'
import { createTraffic } from './simulate-traffic.ts'

export interface FleetOptions {
  url: string
  key: string
  agents: number
  seed: number
  /** Story seconds in one second. */
  speed: number
  /** Ends the run. */
  signal: AbortSignal
  killLine(instanceId: string): string
}

export interface Fleet {
  figures(): Figures
  /** Runs until the signal is aborted. Rejects with a plain sentence when the service cannot be used at all. */
  run(say: (line: string) => void): Promise<void>
  /** Reads back what the service found, and sums up. */
  summary(): Promise<Summary>
}

/** The most rows that are read back of one kind. */
const readBackRows = '1000'
const readBackMs = 5_000

/** The seq of the newest event; undefined when the key may not read events. */
async function newestSeq(operator: Client, signal: AbortSignal): Promise<number | undefined> {
  try {
    const { events } = await operator('listEvents', { query: { limit: '1' }, signal })
    return events[0]?.seq ?? 0
  } catch (fault) {
    if (fault instanceof WardlineError && fault.status === 403) return undefined
    throw fault
  }
}

/** A sentence for the person who started the run. */
function refusal(fault: unknown): unknown {
  if (!(fault instanceof WardlineError)) return fault
  const advice: Record<number, string> = {
    0: 'Start the service first (npm start), or name another address by --url.',
    401: 'Give a valid key by --key or WARDLINE_KEY.',
    403: 'The fleet needs an admin key, or an agent key that is bound to demo-*.',
  }
  return new Error([fault.message, advice[fault.status]].join(' ').trim(), { cause: fault })
}

export function createFleet(options: FleetOptions): Fleet {
  const { url, key, seed, speed, signal, killLine } = options
  const { cast, steps } = planStory(options.agents, seed)
  const runId = randomUUID().slice(0, 8)
  const counts: Counts = { heartbeats: 0, events: { info: 0, warning: 0, critical: 0, breach: 0 } }
  const traffic = createTraffic({ url, key, signal })
  const { call } = traffic
  const operator = createClient({ url, key })
  let say = (_line: string) => {}
  const agents: DemoAgent[] = cast.map((member, index) =>
    createAgent({
      member,
      runId,
      random: seededRandom(seed + Math.imul(index + 1, 0x9e3779b1)),
      speed,
      url,
      key,
      call,
      counts,
      signal,
      say: (line) => say(line),
    }),
  )
  const stage: Stage = { agents, call, operator, runId, killLine, decoys: [] }
  const started = performance.now()
  let stoppedAt: number | undefined
  let seqBefore: number | undefined
  let stepsPlayed = 0

  async function signIn(): Promise<void> {
    try {
      seqBefore = await newestSeq(operator, signal)
      await agents[0]!.beat()
    } catch (fault) {
      throw refusal(fault)
    }
    // Whoever fails here tries again with the next heartbeat.
    await Promise.allSettled(agents.slice(1).map((agent) => agent.beat()))
    say(`${counts.heartbeats} of ${agents.length} agents have signed in`)
  }

  async function playStory(): Promise<void> {
    const storyStart = performance.now()
    for (const step of steps) {
      const wait = storyStart + (step.atSeconds * 1_000) / speed - performance.now()
      await pause(Math.max(0, wait), undefined, { signal })
      const line = await playStep(step, stage)
      stepsPlayed++
      if (line !== undefined) say(line)
    }
  }

  async function run(tell: (line: string) => void): Promise<void> {
    say = tell
    try {
      await signIn()
      await Promise.all([...agents.map((agent) => agent.live()), playStory()])
    } catch (fault) {
      // The abort is how a run ends.
      if (!signal.aborted) throw fault
    } finally {
      stoppedAt = performance.now()
      traffic.close()
    }
  }

  /** What the service itself found out about this fleet since the run began. */
  async function readBack(): Promise<Findings | undefined> {
    const since = seqBefore
    if (since === undefined) return undefined
    const ids = new Set(cast.map(({ id }) => id))
    const read = async (type: string): Promise<EventRow[]> => {
      const query = { event_type: type, limit: readBackRows }
      const { events } = await operator('listEvents', { query, signal: AbortSignal.timeout(readBackMs) })
      return events
        .filter((row) => row.seq > since && row.instance_id !== null && ids.has(row.instance_id))
        .toReversed()
    }
    try {
      const [anomalies, breaches] = await Promise.all([read('anomaly_detected'), read('honeypot_triggered')])
      return { anomalies, breaches }
    } catch {
      return undefined
    }
  }

  const figures = (): Figures => ({
    ...traffic.figures(),
    seconds: ((stoppedAt ?? performance.now()) - started) / 1_000,
    agents: agents.length,
    suspended: agents.filter((agent) => agent.isSuspended()).length,
    heartbeats: counts.heartbeats,
    events: { ...counts.events },
  })

  return {
    figures,
    run,
    summary: async () => ({
      seed,
      ...figures(),
      stepsLeftOut: steps.length - stepsPlayed,
      decoys: stage.decoys.map(({ id, type, matched }) => ({ id, type, matched })),
      findings: await readBack(),
    }),
  }
}
