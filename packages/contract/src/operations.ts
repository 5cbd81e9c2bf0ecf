import { type Static, Type } from 'typebox'
import { choice } from './fields.ts'

export const Readiness = Type.Object({
  ok: Type.Boolean(),
  database: choice(['ok', 'unavailable']),
  backplane: choice(['in-process']),
})
export type Readiness = Static<typeof Readiness>
