import { limits, type RuleFirings, ruleLimits } from '@wardline/contract'
import { dayMs, hourMs, isoTime, startOf } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { Team } from '../../db/teams.ts'
import { AppError } from '../../errors.ts'
import {
  findRule,
  readFiringCounts,
  readFiringHours,
  readFirings,
  readLastFirings,
  readResponses,
  readTeamHours,
} from './queries.ts'

interface Asked {
  limit?: string
  before?: string
  from?: string
  to?: string
}

const defaultSize = 50

function pageOf({ limit, before, from, to }: Asked, now: number) {
  const end = to === undefined ? now + 1 : Date.parse(to)
  const begin = from === undefined ? end - 7 * dayMs : Date.parse(from)
  if (Number.isNaN(begin) || Number.isNaN(end) || begin >= end) {
    throw new AppError('invalid', 'from must be an ISO 8601 instant before to.')
  }
  if (end - begin > ruleLimits.firingHours * hourMs) {
    throw new AppError('invalid', `from and to may be ${ruleLimits.firingHours / 24} days apart at most.`)
  }
  const size = Number(limit ?? defaultSize)
  return { limit: size, before: before === undefined ? Number.MAX_SAFE_INTEGER : Number(before), from: begin, to: end }
}

/** Throws AppError `not_found` or `invalid`. */
export async function listFirings(
  db: Db,
  id: string,
  asked: Asked,
  { now, team }: { now: number; team: Team },
): Promise<RuleFirings> {
  const page = pageOf(asked, now)
  if (!(await findRule(db, id))) throw new AppError('not_found', `No rule with id ${id.slice(0, limits.name)}.`)
  const hoursOf = { from: startOf(page.from, hourMs), to: page.to, id }
  const [rows, hours] = await Promise.all([
    readFirings(db, id, page, team),
    team ? readTeamHours(db, team, hoursOf) : readFiringHours(db, hoursOf),
  ])
  const seqs = rows.map(({ seq }) => seq)
  const responses = seqs.length === 0 ? [] : await readResponses(db, id, seqs)
  return {
    firings: rows.map((row) => ({
      seq: row.seq,
      event_id: row.event_id,
      at: isoTime(row.fired_at),
      version: row.version,
      mode: row.mode,
      group: JSON.parse(row.group_key) as string[],
      instance_id: row.instance_id,
      count: row.count,
      events: (JSON.parse(row.events) as [number, string][]).map(([seq, eventId]) => ({ seq, id: eventId })),
      matched_event_id: row.matched_id,
      responses: responses
        .filter(({ seq }) => seq === row.seq)
        .map(({ action, target, state, detail }) => ({ action, target, result: state, detail })),
    })),
    next_before: rows.length === page.limit ? rows.at(-1)!.seq : null,
    hours: hours.map(({ hour, count, suppressed }) => ({
      hour: isoTime(hour),
      count: Number(count),
      suppressed: Number(suppressed),
    })),
  }
}

/** Hours of the chart in a list, and of the longer count, including the current one. */
export const recentHours = 24
const countedHours = 7 * 24

/** What the firings of rules add up to; for a team, of the agents of the team within the counted hours. */
export async function countFirings(db: Db, ids: readonly string[], { now, team }: { now: number; team: Team }) {
  const first = startOf(now, hourMs) - (recentHours - 1) * hourMs
  const firstCounted = startOf(now, hourMs) - (countedHours - 1) * hourMs
  if (!team) {
    const [counted, counts, last] = await Promise.all([
      readFiringHours(db, { from: first, to: now + 1 }),
      readFiringCounts(db, firstCounted),
      readLastFirings(db, ids),
    ])
    return { first, counted, counts, last }
  }
  const hours = await readTeamHours(db, team, { from: firstCounted, to: now + 1 })
  const counts = new Map<string, number>()
  const last = new Map<string, number>()
  for (const { rule_id, count, last: at } of hours) {
    counts.set(rule_id, (counts.get(rule_id) ?? 0) + count)
    last.set(rule_id, Math.max(last.get(rule_id) ?? 0, at))
  }
  return { first, counted: hours.filter(({ hour }) => hour >= first), counts, last }
}
