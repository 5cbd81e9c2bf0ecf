import { eventTypes } from '@wardline/contract'
import { hourMs, isoTime, minuteMs } from '../../clock.ts'
import type { EventToStore } from '../events/ingest.ts'
import { ownEventToStore } from '../events/new-event.ts'
import type { Basis, Episode, EpisodeOutcome, Finding, Grounds } from './baseline.ts'

/** Subject of an event. */
export interface Subject {
  instanceId: string
  sessionId: string | null
  metric: string
  value: number
  now: number
}

const round = (value: number): number => Number(value.toPrecision(value < 10 ? 2 : 3))
/** Formats integers as they are, and other numbers with significant digits. */
const shown = (value: number): string => String(Number.isInteger(value) ? value : Number(value.toPrecision(4)))

const peers: Record<Exclude<Basis, 'own' | 'none'>, string> = {
  type: 'agents of the same type',
  tag: 'agents with the same tag',
  fleet: 'the agents of the fleet',
}

/** "9 of 10 samples are 2 to 9": the 5th to the 95th percentile. */
function usualText({ basis, usual, highest, isQuietTime, samples }: Grounds): string {
  const low = shown(round(usual.low))
  const high = shown(round(usual.high))
  const range = low === high ? low : `${low} to ${high}`
  if (basis === 'none') {
    return `its first ${samples} samples reached ${shown(highest)}, and there is no fleet to compare it with`
  }
  if (basis !== 'own')
    return `9 of 10 samples of ${peers[basis]} are ${range}, and it is too young to be judged by its own samples`
  const when = isQuietTime ? ' at this time of the week' : ''
  return `9 of 10 samples${when} are ${range}, the highest in 30 days was ${shown(highest)}`
}

/** Text of the period that a sample covers, since the previous one; empty if the agent was offline in between. */
function intervalText(sinceLast: number | null): string {
  const counts = sinceLast !== null && sinceLast >= minuteMs && sinceLast <= hourMs
  return counts ? ` in ${Math.round(sinceLast / minuteMs)} min` : ''
}

function durationText(durationMs: number): string {
  const minutes = Math.round(durationMs / minuteMs)
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`
}

const endings: Record<EpisodeOutcome, string> = {
  over: 'is as usual again',
  accepted: 'stays higher: new level accepted',
  reset: 'is learnt again: the baseline was reset',
  silent: 'is not reported any more',
}

function toStore({ instanceId, sessionId, now }: Subject, event: Parameters<typeof ownEventToStore>[0]): EventToStore {
  return { ...ownEventToStore(event, now), instance_id: instanceId, session_id: sessionId }
}

/** Metadata of the event: the fields of earlier versions, and the explanation. */
function factsOf({ metric, value }: Subject, grounds: Grounds, episode: string, peak: number) {
  const { mean, deviation, z, samples, p, usual, highest, basis } = grounds
  return { metric, value, mean, deviation, z, samples, p, usual, highest, peak, basis, episode }
}

export function endedEvent(subject: Subject, episode: Episode, outcome: EpisodeOutcome, endedAt: number): EventToStore {
  const { metric } = subject
  const { id, begunAt, peak, severity, exceeding } = episode
  const duration = Math.max(0, endedAt - begunAt)
  return toStore(subject, {
    severity: 'info',
    event_type: eventTypes.anomalyEnded,
    description: `${metric} ${endings[outcome]}; the anomaly lasted ${durationText(duration)} and reached ${shown(peak)}`,
    metadata: {
      metric,
      episode: id,
      outcome,
      severity,
      peak,
      samples: exceeding,
      began_at: isoTime(begunAt),
      duration_seconds: Math.round(duration / 1000),
    },
  })
}

/** Builds the event of a finding. `id`: for a level that rose, which is not an episode with an end. */
export function findingEvent(subject: Subject, finding: Finding, id: string): EventToStore {
  if (finding.kind === 'ended') return endedEvent(subject, finding.episode, finding.outcome, finding.endedAt)
  const { grounds } = finding
  const { metric, value } = subject
  if (finding.kind === 'level') {
    const { pace, from, to } = finding
    const change =
      pace === 'day'
        ? `level has doubled in a day: ${metric} is reported from ${shown(round(to))} on, a day ago from ${shown(round(from))}`
        : `level has risen slowly: ${metric} is ${shown(round(to))} on average, it was ${shown(round(from))}`
    return toStore(subject, {
      severity: 'warning',
      event_type: eventTypes.anomalyDetected,
      description: `${change}; ${usualText(grounds)}`,
      metadata: { ...factsOf(subject, grounds, id, value), level: { pace, from, to } },
    })
  }
  const { severity, episode } = finding
  return toStore(subject, {
    severity,
    event_type: eventTypes.anomalyDetected,
    description: `${metric} is ${shown(value)}${intervalText(grounds.sinceLast)}; ${usualText(grounds)}`,
    metadata: factsOf(subject, grounds, episode.id, episode.peak),
  })
}
