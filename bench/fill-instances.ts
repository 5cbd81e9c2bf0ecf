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
