import type { Heartbeat, InstanceDetail, InstanceView } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import { GroupCommit } from '../../db/group-commit.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { deriveStatus } from './liveness.ts'
import { compileHeartbeats, findInstance, heartbeatStatements, readFleet } from './queries.ts'

export interface Heartbeats {
  /** Registers or refreshes an instance; resolves after it is on disk. */
  beat(heartbeat: Heartbeat): Promise<void>
  whenIdle(): Promise<void>
}

/** A heartbeat is a row of short texts. */
const heartbeatBytes = 400

export function createHeartbeats({ database, clock, metrics }: Deps): Heartbeats {
  const texts = compileHeartbeats(database)
  const queue = new GroupCommit<Heartbeat, void>({
    queue: 'heartbeats',
    clock,
    metrics,
    weigh: () => ({ rows: 1, bytes: heartbeatBytes }),
    async commit(beats) {
      // One statement must not touch a row twice: of two heartbeats of an instance the later one counts.
      const latest = new Map(beats.map((beat) => [beat.instance_id, beat]))
      await database.batch(heartbeatStatements(texts, [...latest.values()], clock.now()))
      return beats.map(() => undefined)
    },
  })
  return { beat: (heartbeat) => queue.add(heartbeat), whenIdle: () => queue.whenIdle() }
}

/** The fleet as people see it, by id. */
export async function viewFleet(db: Db, now: number): Promise<InstanceView[]> {
  const rows = await readFleet(db)
  return rows.map((row) => {
    const lastHeartbeat = Number(row.last_heartbeat_at)
    return {
      id: row.id,
      name: row.name,
      status: deriveStatus(row.suspended === 1, lastHeartbeat, now),
      last_heartbeat: isoTime(lastHeartbeat),
      secondsAgo: Math.max(0, Math.floor((now - lastHeartbeat) / 1000)),
      suspension_reason: row.suspension_reason,
    }
  })
}

const timeOrNull = (epochMs: number | null) => (epochMs === null ? null : isoTime(Number(epochMs)))
const numberOrNull = (value: number | null) => (value === null ? null : Number(value))

/** One instance with what its agent says of itself. Throws AppError `not_found`. */
export async function viewInstance(db: Db, id: string, now: number): Promise<InstanceDetail> {
  const row = await findInstance(db, id)
  if (!row) throw new AppError('not_found', 'There is no instance with this id.')
  const applied = numberOrNull(row.applied_version)
  const version = Number(row.control_version)
  return {
    id: row.id,
    name: row.name,
    agent_type: row.agent_type,
    version: row.version,
    fail_mode: row.fail_mode,
    status: deriveStatus(row.suspended === 1, Number(row.last_heartbeat_at), now),
    first_seen: isoTime(Number(row.first_seen_at)),
    last_heartbeat: isoTime(Number(row.last_heartbeat_at)),
    suspension_reason: row.suspension_reason,
    control: {
      version,
      changed_at: timeOrNull(row.control_changed_at),
      applied_version: applied,
      applied_at: timeOrNull(row.applied_at),
      confirmed: version === 0 || applied === version,
    },
  }
}
