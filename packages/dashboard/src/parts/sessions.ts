import { isBlocked, type Severity, secondWitness, severities, toolOf } from '@wardline/contract'
import type { Row } from '../data/live-tail.ts'

/** One session: inputs → calls → outcome. */
export interface SessionFacts {
  id: string
  from: string
  to: string
  events: number
  /** Reports of inputs, oldest first. */
  inputs: Row[]
  /** Calls by tool, most frequent first. */
  calls: [tool: string, count: number][]
  blocked: number
  /** The worst report; undefined when all reports are info. */
  worst: Row | undefined
  last: Row
}

/** Whether agents use this type for their inputs. Detections and blocks of inputs do not count. */
const isInput = (type: string) =>
  /(^|_)(input|prompt|message|task|request)(_|$)/.test(type) && !/_(detected|blocked)$/.test(type)

const rank = (severity: Severity) => severities.indexOf(severity)

/** Groups rows (newest first) into sessions, most recently active first. */
export function sessionsOf(rows: readonly Row[]): SessionFacts[] {
  const sessions = new Map<string, Row[]>()
  for (const row of rows) {
    if (row.session_id === null) continue
    const known = sessions.get(row.session_id)
    if (known) known.push(row)
    else sessions.set(row.session_id, [row])
  }
  return [...sessions].map(([id, newestFirst]) => {
    const all = newestFirst.toReversed()
    const counts = new Map<string, number>()
    for (const { event_type, metadata } of all) {
      if (event_type !== 'tool_call' || metadata?.[secondWitness] === true) continue
      const tool = toolOf(metadata) ?? 'unnamed'
      counts.set(tool, (counts.get(tool) ?? 0) + 1)
    }
    const worst = newestFirst.toSorted((one, other) => rank(other.severity) - rank(one.severity))[0]!
    return {
      id,
      from: all[0]!.created_at,
      to: newestFirst[0]!.created_at,
      events: all.length,
      inputs: all.filter(({ event_type }) => isInput(event_type)),
      calls: [...counts].sort(([, one], [, other]) => other - one),
      blocked: all.filter(
        ({ event_type, metadata }) => metadata?.[secondWitness] !== true && isBlocked(event_type, metadata),
      ).length,
      worst: worst.severity === 'info' ? undefined : worst,
      last: newestFirst[0]!,
    }
  })
}
