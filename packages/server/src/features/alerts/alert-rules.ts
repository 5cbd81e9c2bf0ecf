import type { NewRoute, NewSilence, RouteView, SilenceView } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Db, Trx } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { uuidV7 } from '../../ids.ts'
import { type Actor, recordAction } from '../audit/audit.ts'
import { countChange } from './channel-queries.ts'
import { type RouteRow, readRouteRows, readSilenceRows, type SilenceRow } from './directory-queries.ts'
import type { ChannelDirectory } from './open-directory.ts'
import {
  countRoutes,
  countSilences,
  findNamedChannels,
  findRoute,
  forgetEndedSilences,
  insertRoute,
  insertSilence,
  removeRoute,
  removeSilence,
  updateRoute,
} from './rule-queries.ts'

/** What a rule is changed with. */
export interface RuleChange {
  deps: Deps
  directory: ChannelDirectory
  actor: Actor
}

/** Every alert is compared with every route and every silence. */
const maxRoutes = 200
const maxSilences = 1_000
/** A silence that outlives everybody's memory of it is a hole; whoever needs one for good takes a route. */
const longestSilenceMs = 366 * 86_400_000

const invalid = (sentence: string) => new AppError('invalid', sentence)
const routeNotFound = () => new AppError('not_found', 'There is no route with this id.')

const routeOf = ({ name, match, channels }: RouteRow) => ({
  name,
  match: JSON.parse(match),
  channels: JSON.parse(channels) as string[],
})
const silenceOf = ({ match, reason, ends_at }: SilenceRow) => ({
  match: JSON.parse(match),
  reason,
  ends_at: isoTime(Number(ends_at)),
})

/** Runs a change alone among all changes of channels, routes and silences. */
function change<Result>({ deps }: RuleChange, work: (trx: Trx) => Promise<Result>): Promise<Result> {
  return deps.database.db.transaction().execute(async (trx) => {
    await countChange(trx)
    return work(trx)
  })
}

export async function listRoutes(db: Db): Promise<RouteView[]> {
  const rows = await readRouteRows(db)
  return rows.map((row) => ({ id: row.id, ...routeOf(row), created_at: isoTime(Number(row.created_at)) }))
}

/** The columns of a route. Throws AppError `invalid` when it names a channel that is not there. */
async function routeColumns(trx: Trx, { directory }: RuleChange, { name, match, channels }: NewRoute) {
  const named = [...new Set(channels)]
  const found = (await findNamedChannels(trx, named)).filter((row) => directory.has(row)).map(({ id }) => id)
  const unknown = named.find((id) => !found.includes(id))
  if (unknown !== undefined) throw invalid(`channels names no channel ${unknown}.`)
  return { name, match: JSON.stringify(match), channels: JSON.stringify(named) }
}

/** Returns the id. Throws AppError `invalid`. */
export function createRoute(rule: RuleChange, request: NewRoute): Promise<string> {
  const now = rule.deps.clock.now()
  return change(rule, async (trx) => {
    if ((await countRoutes(trx)) >= maxRoutes) {
      throw invalid(`There are ${maxRoutes} routes, which is the most: delete one first.`)
    }
    const row = { id: uuidV7(now), ...(await routeColumns(trx, rule, request)), created_at: now }
    await insertRoute(trx, row)
    const entry = { action: 'alert_route.create', target: row.id, before: null, after: routeOf(row) }
    await recordAction(trx, rule.actor, entry, now)
    return row.id
  })
}

/** Throws AppError `not_found` or `invalid`. */
export function replaceRoute(rule: RuleChange, id: string, request: NewRoute): Promise<void> {
  const now = rule.deps.clock.now()
  return change(rule, async (trx) => {
    const old = await findRoute(trx, id)
    if (!old) throw routeNotFound()
    const columns = await routeColumns(trx, rule, request)
    await updateRoute(trx, id, columns)
    const after = routeOf({ ...old, ...columns })
    await recordAction(trx, rule.actor, { action: 'alert_route.change', target: id, before: routeOf(old), after }, now)
  })
}

/** Throws AppError `not_found`. */
export function deleteRoute(rule: RuleChange, id: string): Promise<void> {
  const now = rule.deps.clock.now()
  return change(rule, async (trx) => {
    const old = await removeRoute(trx, id)
    if (!old) throw routeNotFound()
    const entry = { action: 'alert_route.delete', target: id, before: routeOf(old), after: null }
    await recordAction(trx, rule.actor, entry, now)
  })
}

/** Silences that have not ended, the one that ends next first. */
export async function listSilences(db: Db, now: number): Promise<SilenceView[]> {
  const rows = await readSilenceRows(db, now)
  return rows.map((row) => ({
    id: row.id,
    ...silenceOf(row),
    created_by: row.created_by,
    created_at: isoTime(Number(row.created_at)),
  }))
}

function silenceEnd(text: string, now: number): number {
  const end = Date.parse(text)
  if (!(end > now)) throw invalid('ends_at must lie in the future.')
  if (end > now + longestSilenceMs) throw invalid('ends_at must lie within a year.')
  return end
}

/** Returns the id. Throws AppError `invalid`. */
export async function createSilence(rule: RuleChange, request: NewSilence): Promise<string> {
  const now = rule.deps.clock.now()
  const ends_at = silenceEnd(request.ends_at, now)
  return change(rule, async (trx) => {
    await forgetEndedSilences(trx, now)
    if ((await countSilences(trx)) >= maxSilences) {
      throw invalid(`There are ${maxSilences} silences, which is the most: end one first.`)
    }
    const row = {
      id: uuidV7(now),
      match: JSON.stringify(request.match),
      reason: request.reason,
      created_by: rule.actor.keyId,
      created_at: now,
      ends_at,
    }
    await insertSilence(trx, row)
    const entry = { action: 'silence.create', target: row.id, before: null, after: silenceOf(row) }
    await recordAction(trx, rule.actor, { ...entry, reason: request.reason }, now)
    return row.id
  })
}

/** Ends a silence now. Throws AppError `not_found` when it is unknown or ended already. */
export function endSilence(rule: RuleChange, id: string): Promise<void> {
  const now = rule.deps.clock.now()
  return change(rule, async (trx) => {
    const old = await removeSilence(trx, id, now)
    if (!old) throw new AppError('not_found', 'There is no silence with this id, or it has ended.')
    await recordAction(trx, rule.actor, { action: 'silence.end', target: id, before: silenceOf(old), after: null }, now)
  })
}
