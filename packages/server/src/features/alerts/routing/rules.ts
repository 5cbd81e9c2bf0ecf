import type { NewRoute, NewSilence, RouteView, SilenceView } from '@wardline/contract'
import { dayMs, isoTime } from '../../../clock.ts'
import type { Db, Trx } from '../../../db/database.ts'
import { AppError, unknownId } from '../../../errors.ts'
import { uuidV7 } from '../../../ids.ts'
import type { Action } from '../../audit/audit.ts'
import { keyNames } from '../../keys/key-names.ts'
import { isNarrowed, mayHideAttacks, narrowed, type RoutingChange, runChange, silenced } from './changes.ts'
import {
  countRoutes,
  countSilences,
  findNamedChannels,
  findRoute,
  forgetEndedSilences,
  insertRoute,
  insertSilence,
  type RouteRow,
  readRouteRows,
  readSilenceRows,
  removeRoute,
  removeSilence,
  type SilenceRow,
  updateRoute,
} from './queries.ts'

/** Maximum routes and silences: every alert is compared with all of them. */
const maxRoutes = 200
const maxSilences = 1_000
/** Maximum duration of a silence, because a forgotten one is a gap in alerting. For permanent exclusions use a route. */
const maxSilenceMs = 366 * dayMs

const invalid = (sentence: string) => new AppError('invalid', sentence)
const routeNotFound = (id: string) => unknownId('route', id, 'wardline routes list')

const routeOf = ({ name, match, channels }: RouteRow) => ({
  name,
  match: JSON.parse(match),
  channels: JSON.parse(channels) as string[],
})
const silenceOf = ({ match, reason, ends_at }: SilenceRow) => ({
  match: JSON.parse(match),
  reason,
  ends_at: isoTime(ends_at),
})

/** Runs a change of routes, and finds the channels whose alerts it reduces. */
function changeRoutes<Result>(
  rule: RoutingChange,
  work: (trx: Trx, now: number) => Promise<{ result: Result; entry: Action }>,
) {
  return runChange(rule, async (trx, now) => {
    const before = (await readRouteRows(trx)).map(routeOf)
    const { result, entry } = await work(trx, now)
    const after = (await readRouteRows(trx)).map(routeOf)
    const less = rule.table.current.channels.filter(({ id, enabled }) => enabled && isNarrowed(id, before, after))
    return { result, entry, reductions: less.map(narrowed) }
  })
}

export async function listRoutes(db: Db): Promise<RouteView[]> {
  const rows = await readRouteRows(db)
  return rows.map((row) => ({ id: row.id, ...routeOf(row), created_at: isoTime(row.created_at) }))
}

/** Returns the columns of a route. Throws AppError `invalid` if it names an unknown channel. */
async function routeColumns(trx: Trx, { table }: RoutingChange, { name, match, channels }: NewRoute) {
  const named = [...new Set(channels)]
  const found = (await findNamedChannels(trx, named)).filter((row) => table.has(row)).map(({ id }) => id)
  const unknown = named.find((id) => !found.includes(id))
  if (unknown !== undefined) throw invalid(`channels contains the unknown channel ${unknown}.`)
  return { name, match: JSON.stringify(match), channels: JSON.stringify(named) }
}

/** Returns the id. Throws AppError `invalid`. */
export function createRoute(rule: RoutingChange, request: NewRoute): Promise<string> {
  return changeRoutes(rule, async (trx, now) => {
    if ((await countRoutes(trx)) >= maxRoutes) {
      throw invalid(`There are ${maxRoutes} routes, the maximum: delete one first.`)
    }
    const row = { id: uuidV7(now), ...(await routeColumns(trx, rule, request)), created_at: now }
    await insertRoute(trx, row)
    const entry = { action: 'alert_route.create', target: row.id, before: null, after: routeOf(row) }
    return { result: row.id, entry }
  })
}

/** Throws AppError `not_found` or `invalid`. */
export function replaceRoute(rule: RoutingChange, id: string, request: NewRoute): Promise<void> {
  return changeRoutes(rule, async (trx) => {
    const old = await findRoute(trx, id)
    if (!old) throw routeNotFound(id)
    const columns = await routeColumns(trx, rule, request)
    await updateRoute(trx, id, columns)
    const after = routeOf({ ...old, ...columns })
    return { result: undefined, entry: { action: 'alert_route.change', target: id, before: routeOf(old), after } }
  })
}

/** Throws AppError `not_found`. */
export function deleteRoute(rule: RoutingChange, id: string): Promise<void> {
  return changeRoutes(rule, async (trx) => {
    const old = await removeRoute(trx, id)
    if (!old) throw routeNotFound(id)
    return { result: undefined, entry: { action: 'alert_route.delete', target: id, before: routeOf(old), after: null } }
  })
}

/** Lists silences that have not ended, the next to end first. */
export async function listSilences(db: Db, now: number): Promise<SilenceView[]> {
  const rows = await readSilenceRows(db, now)
  const names = await keyNames.names(
    db,
    rows.map(({ created_by }) => created_by),
  )
  return rows.map((row) => ({
    id: row.id,
    ...silenceOf(row),
    created_by: row.created_by,
    created_by_name: names.get(row.created_by) ?? null,
    created_at: isoTime(row.created_at),
  }))
}

function silenceEnd(text: string, now: number): number {
  const end = Date.parse(text)
  if (!(end > now)) throw invalid('ends_at must be in the future.')
  if (end > now + maxSilenceMs) throw invalid('ends_at must be within a year.')
  return end
}

/** Returns the id. Throws AppError `invalid`. */
export function createSilence(rule: RoutingChange, request: NewSilence): Promise<string> {
  return runChange(rule, async (trx, now) => {
    const ends_at = silenceEnd(request.ends_at, now)
    await forgetEndedSilences(trx, now)
    if ((await countSilences(trx)) >= maxSilences) {
      throw invalid(`There are ${maxSilences} silences, the maximum: end one first.`)
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
    const reductions = mayHideAttacks(request.match) ? [silenced(request.match, isoTime(ends_at), request.reason)] : []
    return { result: row.id, reductions, entry: { ...entry, reason: request.reason } }
  })
}

/** Ends a silence now. Throws AppError `not_found` if it is unknown or has ended. */
export function endSilence(rule: RoutingChange, id: string): Promise<void> {
  return runChange(rule, async (trx, now) => {
    const old = await removeSilence(trx, id, now)
    if (!old) throw unknownId('current silence', id, 'wardline silences list')
    const entry = { action: 'silence.end', target: id, before: silenceOf(old), after: null }
    return { result: undefined, reductions: [], entry }
  })
}
