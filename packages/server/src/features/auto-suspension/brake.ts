import { type BrakeView, eventTypes, limits } from '@wardline/contract'
import { dayMs, isoTime, isoTimeOrNull, minuteMs } from '../../clock.ts'
import type { Statement } from '../../db/database.ts'
import { changeGuarded } from '../../db/guarded-change.ts'
import type { Team } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import type { Ingest } from '../events/ingest.ts'
import { countByOwner } from '../instances/control-statements.ts'
import { readPrefixOwners } from '../keys/owner-statements.ts'
import { readAutomatic } from '../suspensions/suspension-statements.ts'
import { type BrakeLimits, type BrakeState, fleetMax, fleetOf } from './brake-rules.ts'
import { type BrakeRow, brakeStatements, forgetRefusals, readBrakeRow, readRefusals } from './queries.ts'

/** Instances without a heartbeat for a day do not count: old instances must not raise the limit. */
const fleetWithinMs = dayMs

/** The brake as read, with the counted figures. */
export interface Brake extends BrakeState {
  row: BrakeRow
}

export const brakeLimits = ({ config }: Pick<Deps, 'config'>): BrakeLimits => ({
  perMinute: config.autoSuspendPerMinute,
  fleetPercent: config.autoSuspendFleetPercent,
  fleetMin: config.autoSuspendFleetMin,
})

/** Reads the brake before counting, so that a change by another process in between makes the batch stale. */
export async function readBrake({ database: { db }, clock }: Pick<Deps, 'database' | 'clock'>): Promise<Brake> {
  const row = await readBrakeRow(db)
  const now = clock.now()
  const [{ recent, lasting }, counts, prefixOwners] = await Promise.all([
    readAutomatic(db, now - minuteMs),
    countByOwner(db, now - fleetWithinMs),
    readPrefixOwners(db),
  ])
  const fleet = fleetOf(counts, prefixOwners)
  return { row, engaged: row.engaged_at !== null, lastMinute: recent, lasting, fleet }
}

/** Returns the first statements of a batch that suspends automatically. */
export const holdBrake = ({ database }: Pick<Deps, 'database'>, brake: Brake): Statement[] =>
  brakeStatements(database, brake.row)

/** Returns the event of engaging the brake, and the first statements of the batch, instead of `holdBrake`. */
export function engageBrake(deps: Deps, { ingest }: { ingest: Pick<Ingest, 'own'> }, brake: Brake, eventId: string) {
  const allowed = brakeLimits(deps)
  const { perMinute, fleetPercent, fleetMin } = allowed
  const { lastMinute, lasting, fleet } = brake
  const event = ingest.own({
    severity: 'critical',
    event_type: eventTypes.brakeEngaged,
    description: `Brake engaged: nothing is suspended automatically until an operator releases it. The limits are ${perMinute} suspensions a minute and ${fleetMax(fleet, allowed)} of ${fleet} agents at a time`,
    metadata: {
      event_id: eventId,
      last_minute: lastMinute.size,
      suspended: lasting,
      fleet,
      per_minute: perMinute,
      fleet_percent: fleetPercent,
      fleet_min: fleetMin,
    },
  })
  const change = { engaged_at: deps.clock.now(), engaged_by_event: eventId }
  return { event, statements: brakeStatements(deps.database, brake.row, change) }
}

export async function viewBrake(deps: Pick<Deps, 'config' | 'database' | 'clock'>, team: Team): Promise<BrakeView> {
  const brake = await readBrake(deps)
  const refusals = await readRefusals(deps.database.db, team)
  const { row, engaged, lastMinute, lasting, fleet } = brake
  const allowed = brakeLimits(deps)
  return {
    engaged,
    engaged_at: isoTimeOrNull(row.engaged_at),
    engaged_by_event: team ? null : row.engaged_by_event,
    refused: refusals.reduce((sum, { count }) => sum + Number(count), 0),
    refused_instances: refusals
      .filter(({ instance_id }) => instance_id !== '')
      .slice(0, limits.listedRefusals)
      .map(({ instance_id, count, event_id, last_at }) => ({ instance_id, count, event_id, at: isoTime(last_at) })),
    limits: {
      per_minute: allowed.perMinute,
      fleet_percent: allowed.fleetPercent,
      fleet_min: allowed.fleetMin,
      fleet: team ? null : fleet,
      fleet_max: team ? null : fleetMax(fleet, allowed),
    },
    last_minute: team ? null : lastMinute.size,
    suspended: team ? null : lasting,
  }
}

/** Releases the brake. Throws AppError `conflict` if it is not engaged. */
export async function releaseBrake(
  deps: Deps,
  { ingest }: { ingest: Pick<Ingest, 'own' | 'prepare'> },
  reason: string,
  actor: Actor,
): Promise<void> {
  const { database } = deps
  await changeGuarded(database, async () => {
    const row = await readBrakeRow(database.db)
    if (row.engaged_at === null) throw new AppError('conflict', 'The brake is not engaged: nothing to release.')
    const now = deps.clock.now()
    const refused = (await readRefusals(database.db)).reduce((sum, { count }) => sum + Number(count), 0)
    const { statements, stored } = ingest.prepare([
      ingest.own({
        severity: 'info',
        event_type: eventTypes.brakeReleased,
        description: `Brake released by ${actor.name}: automatic suspensions are made again`,
        metadata: { engaged_at: isoTime(row.engaged_at), event_id: row.engaged_by_event, refused },
      }),
    ])
    const before = { engaged: true, engaged_at: isoTime(row.engaged_at), event_id: row.engaged_by_event, refused }
    const action = { action: 'brake.release', target: null, before, after: { engaged: false }, reason: reason.trim() }
    return {
      statements: [
        ...brakeStatements(database, row, { engaged_at: null, engaged_by_event: null }),
        ...statements,
        forgetRefusals(database.db),
        ...auditStatements(database, actor, action, now),
      ],
      result: stored,
    }
  })
  deps.log.info({ actor: actor.keyId }, 'brake of automatic suspensions released')
}
