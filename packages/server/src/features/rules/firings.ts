import { limits, type RuleFirings, ruleLimits } from '@wardline/contract'
import { dayMs, hourMs, isoTime, startOf } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import { AppError } from '../../errors.ts'
import { findRule, readFiringHours, readFirings, readResponses } from './queries.ts'

interface Asked {
  limit?: string
  before?: string
  from?: string
  to?: string
}

const pageSize = { usual: 50, max: 200 }

function pageOf({ limit, before, from, to }: Asked, now: number) {
  const end = to === undefined ? now + 1 : Date.parse(to)
  const begin = from === undefined ? end - 7 * dayMs : Date.parse(from)
  if (Number.isNaN(begin) || Number.isNaN(end) || begin >= end) {
    throw new AppError('invalid', 'from must be an ISO 8601 instant before to.')
  }
  if (end - begin > ruleLimits.firingHours * hourMs) {
    throw new AppError('invalid', `from and to may be ${ruleLimits.firingHours / 24} days apart at most.`)
  }
  const size = limit === undefined ? pageSize.usual : Number(limit)
  if (size < 1 || size > pageSize.max) throw new AppError('invalid', `limit must be 1 to ${pageSize.max}.`)
  return { limit: size, before: before === undefined ? Number.MAX_SAFE_INTEGER : Number(before), from: begin, to: end }
}

/** Throws AppError `not_found` or `invalid`. */
export async function listFirings(db: Db, id: string, asked: Asked, now: number): Promise<RuleFirings> {
  const page = pageOf(asked, now)
  if (!(await findRule(db, id))) throw new AppError('not_found', `No rule with id ${id.slice(0, limits.name)}.`)
  const [rows, hours] = await Promise.all([
    readFirings(db, id, page),
    readFiringHours(db, { from: startOf(page.from, hourMs), to: page.to, id }),
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
