import type { Static } from 'typebox'
import { define } from './endpoint.ts'
import { choice, Ok } from './fields.ts'
import { Type } from './type.ts'

export const Readiness = Type.Object({
  ok: Type.Boolean({ description: 'State of the database alone' }),
  database: choice(['ok', 'unavailable']),
  backplane: choice(
    ['in-process', 'ok', 'unavailable'],
    'While it is unavailable, events are stored and polls are correct; changes by other processes arrive up to a second later',
  ),
  clock_offset_ms: Type.Integer({
    description: "How far this machine's clock is behind the database's, whose time is used; 0 with SQLite",
  }),
})

export type Readiness = Static<typeof Readiness>

export const operationEndpoints = {
  getHealth: define({
    method: 'GET',
    path: '/healthz',
    access: 'open',
    feature: 'operations',
    summary: 'The process is alive; the database is not checked',
    status: 200,
    reply: Ok,
  }),
  getReadiness: define({
    method: 'GET',
    path: '/readyz',
    access: 'open',
    feature: 'operations',
    summary: 'The database is writable',
    status: 200,
    reply: Readiness,
    failures: { 503: 'Not ready; the body is the same as on success' },
  }),
  getMetrics: define({
    method: 'GET',
    path: '/metrics',
    access: 'metrics',
    teams: 'refused',
    feature: 'operations',
    summary: 'Metrics for Prometheus',
    status: 200,
    text: 'Prometheus text format',
  }),
}
