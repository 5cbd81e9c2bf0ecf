import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/**
 * Stores instances in the data folder of a stopped service, with heartbeats spread over the minute before `now`;
 * `hasTags`: with three tags each.
 */
export function fillInstances(dataDir: string, count: number, now = Date.now(), hasTags = false): void {
  const database = new DatabaseSync(join(dataDir, 'wardline.db'))
  database
    .prepare(`insert into instances (id, name, agent_type, version, first_seen_at, last_heartbeat_at, agent_tags)
      with recursive more(n) as (select 1 union all select n + 1 from more where n < ?)
      select 'agent-instance-' || n, 'Bench agent ' || n, 'researcher', '1.2.3', ? - 86400000, ? - (n * 7919) % 60000,
        case when ? then '["env:production","region:eu","team:payments-' || (n % 50) || '"]' end from more`)
    .run(count, now, now, hasTags ? 1 : 0)
  database.close()
}

/** Of so many agents of a mixed fleet, the one at this place is suspended. */
export const [suspendedEvery, suspendedPlace] = [250, 3]

/**
 * Makes a filled fleet as mixed as a real one: versions, regions and teams, one in 100 without heartbeats for an hour,
 * and one in 250 suspended, of which every tenth has not confirmed.
 */
export function mixFleet(dataDir: string, now = Date.now()): void {
  const database = new DatabaseSync(join(dataDir, 'wardline.db'))
  database.exec(`update instances set
      version = '1.' || (rowid % 12) || '.' || (rowid % 3),
      agent_type = case rowid % 4 when 0 then 'coder' else 'researcher' end,
      fail_mode = case rowid % 3 when 0 then 'open' else 'closed' end,
      agent_tags = '["env:' || case rowid % 5 when 0 then 'staging' else 'production' end || '","region:'
        || case rowid % 3 when 0 then 'eu' when 1 then 'us' else 'ap' end || '","team:payments-' || (rowid % 50) || '"]';
    update instances set last_heartbeat_at = ${now} - 3600000 - (rowid * 31) % 7200000 where rowid % 100 = 7;
    update instances set suspended = 1, suspension_reason = 'Filled as suspended', control_version = 1,
      control_changed_at = ${now} - 7200000, applied_version = case when rowid % 2500 = 3 then 0 else 1 end,
      applied_at = ${now} - 7190000 where rowid % ${suspendedEvery} = ${suspendedPlace}`)
  database.close()
}
