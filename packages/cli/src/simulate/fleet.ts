import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { type Client, createClient, type EventRow, type Severity, WardlineError } from '@wardline/contract'
import type { MonitorError } from '@wardline/sdk'
import { type ExitName, Failure } from '../exit.ts'
import { briskPace, createAgent, type DemoAgent, steadyPace } from './agent.ts'
import { seededRandom } from './random.ts'
import type { Figures, Findings, Summary } from './report.ts'
import { playStep, type Stage } from './steps.ts'
import { type CastMember, planStory } from './story.ts'
import { watchTraffic } from './traffic.ts'

interface FleetOptions {
  url: string
  key: string
  agents: number
  seed: number
  /** Seconds of the story per second. */
  speed: number
  /** Whether the story has a drill and a containment, whose agents stay suspended afterwards. */
  isContained?: boolean
  /** Whether the run lasts for hours instead of a minute. */
  isSteady?: boolean
  /** Ends the run. */
  signal: AbortSignal
  killLine(instanceId: string): string
}

interface Fleet {
  figures(): Figures
  /** Whether the whole story was played. */
  isStoryOver(): boolean
  /** Runs until the signal is aborted. Rejects with one sentence if the service cannot be used. */
  run(say: (line: string) => void): Promise<void>
  /** Reads the findings of the service and returns a summary. */
  summary(): Promise<Summary>
}

/** Maximum findings that are read per type. */
const readBackRows = '1000'
const readBackMs = 5_000

/** Returns the seq of the newest event; undefined if the key may not read events. */
async function newestSeq(operator: Client, signal: AbortSignal): Promise<number | undefined> {
  try {
    const { events } = await operator('listEvents', { query: { limit: '1' }, signal })
    return events[0]?.seq ?? 0
  } catch (fault) {
    if (fault instanceof WardlineError && fault.status === 403) return undefined
    throw fault
  }
}

/** Converts an error of the service to a sentence with advice. */
function refusal(fault: unknown): unknown {
  if (!(fault instanceof WardlineError)) return fault
  const advice: Record<number, string> = {
    0: 'Start the service first (npm start), or give another address with --url.',
    401: 'Give a valid key with --key or WARDLINE_KEY.',
  }
  const exits: Record<number, ExitName> = { 0: 'unreachable', 401: 'unauthorized' }
  const sentence = [fault.message, advice[fault.status]].join(' ').trim()
  return new Failure(sentence, fault.code, exits[fault.status] ?? 'failed', { cause: fault })
}

function notAllowed(cause: MonitorError): Failure {
  const sentence =
    'This key may not send heartbeats for demo-*: give an admin key, or an agent key that is bound to demo-*.'
  return new Failure(sentence, 'forbidden', 'unauthorized', { cause })
}

/** Converts an SDK error about options to a usage error, because the options come from the command line. */
function invalidOption(fault: unknown): unknown {
  const [, sentence] = /^createMonitor: (.*)/s.exec((fault as Error).message) ?? []
  return sentence === undefined ? fault : new Failure(`Agents cannot start: ${sentence}.`, 'usage', 'usage')
}

/** Throws Failure if agents cannot use the address or the key. */
export function createFleet(options: FleetOptions): Fleet {
  const { url, key, seed, speed, isContained, isSteady, signal, killLine } = options
  const { cast, steps } = planStory(options.agents, seed, isContained)
  const runId = randomUUID().slice(0, 8)
  const stored: Record<Severity, number> = { info: 0, warning: 0, critical: 0, breach: 0 }
  const operator = createClient({ url, key })
  let say = (_line: string) => {}
  let lastTrouble: MonitorError | undefined
  const troublesShown = new Set<string>()
  function onTrouble(trouble: MonitorError): void {
    lastTrouble = trouble
    // Every agent of the fleet reports the same errors, so each code is shown once.
    if (!troublesShown.has(trouble.code)) say(trouble.message)
    troublesShown.add(trouble.code)
  }
  const createMember = (member: CastMember, index: number): DemoAgent => {
    const random = seededRandom(seed + Math.imul(index + 1, 0x9e3779b1))
    return createAgent({
      member,
      runId,
      random,
      speed,
      pace: isSteady ? steadyPace : briskPace,
      url,
      key,
      stored,
      signal,
      say: (line) => say(line),
      onTrouble,
    })
  }
  let agents: DemoAgent[]
  try {
    agents = cast.map(createMember)
  } catch (fault) {
    throw invalidOption(fault)
  }
  const traffic = watchTraffic(url)
  const stage: Stage = { agents, operator, runId, killLine, decoys: [] }
  const started = performance.now()
  let stoppedAt: number | undefined
  let seqBefore: number | undefined
  let stepsPlayed = 0

  async function signIn(): Promise<void> {
    const [first, ...others] = agents
    try {
      seqBefore = await newestSeq(operator, signal)
    } catch (fault) {
      throw refusal(fault)
    }
    await first!.start()
    if (!first!.hasContact() && lastTrouble?.code === 'unauthorized') throw notAllowed(lastTrouble)
    // The SDK of each agent retries if its first connection fails.
    await Promise.all(others.map((agent) => agent.start()))
    say(`${agents.filter((agent) => agent.hasContact()).length} of ${agents.length} agents have connected`)
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

  async function run(print: (line: string) => void): Promise<void> {
    say = print
    try {
      await signIn()
      await Promise.all([...agents.map((agent) => agent.live()), playStory()])
    } catch (fault) {
      // A run always ends with an abort.
      if (!signal.aborted) throw fault
    } finally {
      await Promise.all(agents.map((agent) => agent.stop()))
      stoppedAt = performance.now()
      traffic.close()
    }
  }

  /** Returns the findings about this fleet since the start of the run; undefined if they cannot be read. */
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
    lastFailure: lastTrouble?.message,
    events: { ...stored },
  })

  return {
    figures,
    isStoryOver: () => stepsPlayed === steps.length,
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
