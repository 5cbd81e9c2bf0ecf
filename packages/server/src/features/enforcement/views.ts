import type { EnforcementCall, EnforcementCallState, EnforcementPoint } from '@wardline/contract'
import { isoTimeOrNull } from '../../clock.ts'
import type { Point } from '../../config/enforcement-points.ts'
import type { Db } from '../../db/database.ts'
import { type CallRow, readHealth } from './call-statements.ts'

type CallFacts = Pick<CallRow, 'confirmed_at' | 'failed_at' | 'superseded_at'>

/** `resumed`: whether the suspension of the call is over. */
function stateOf({ confirmed_at, failed_at, superseded_at }: CallFacts, resumed: boolean): EnforcementCallState {
  if (confirmed_at !== null) return 'confirmed'
  if (failed_at !== null) return 'failed'
  return superseded_at !== null || resumed ? 'superseded' : 'pending'
}

export const viewCall = (row: CallRow, resumed: boolean): EnforcementCall => ({
  point: row.point,
  state: stateOf(row, resumed),
  attempts: row.attempts,
  confirmed_at: isoTimeOrNull(row.confirmed_at),
  last_status: row.last_status,
  last_error: row.last_error,
})

/** Returns the points with their health, without path and secret. */
export async function listPoints(db: Db, points: readonly Point[]): Promise<{ points: EnforcementPoint[] }> {
  const views: EnforcementPoint[] = []
  for (const { name, host, actions, instances = null, tags = null } of points) {
    const { last, confirmedAt, pending, failed } = await readHealth(db, name)
    views.push({
      name,
      host,
      actions: [...actions],
      instances: instances && [...instances],
      tags: tags && [...tags],
      health: last === undefined ? 'unused' : last.last_error === null ? 'ok' : 'failing',
      pending,
      failed,
      last_attempt_at: isoTimeOrNull(last?.attempted_at ?? null),
      last_confirmed_at: isoTimeOrNull(confirmedAt),
      last_status: last?.last_status ?? null,
      last_error: last?.last_error ?? null,
    })
  }
  return { points: views }
}
