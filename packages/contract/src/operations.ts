import { type Static, Type } from 'typebox'
import { choice } from './fields.ts'

export const Readiness = Type.Object({
  ok: Type.Boolean({ description: 'Of the database alone' }),
  database: choice(['ok', 'unavailable']),
  backplane: choice(
    ['in-process', 'ok', 'unavailable'],
    'While it is unavailable, events are stored and polls are right, and what other processes do arrives a second later',
  ),
})
export type Readiness = Static<typeof Readiness>
