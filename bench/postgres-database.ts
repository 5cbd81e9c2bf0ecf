import { Client } from 'pg'
import { startPostgres, type TestPostgres } from '../test-servers/postgres.ts'
import { type Service, startService } from './service.ts'

/** The only place where the benchmark accesses tables on PostgreSQL. The schema is always created by the service. */

const secret = 'the-master-secret-that-all-processes-of-the-benchmark-share'

const filledEventCount = `
  insert into events (seq, created_at, severity, class, tool, source, event_type, instance_id, session_id, ip_address,
    id, description, metadata)
  select n, $2::bigint - $3::bigint * ($1 - n) / $1,
    case when n % 64 = 63 then 'critical' when n % 16 = 15 then 'warning' else 'info' end,
    case when n % 64 = 63 then 'blocked' else 'none' end, case when n % 16 = 15 then null else 'file-read' end,
    'bench-agent', case when n % 16 = 15 then 'policy_violation' else 'tool_call' end,
    'bench-agent-' || lpad((n % 100)::text, 3, '0'), null, '127.0.0.1', gen_random_uuid()::text,
    repeat('The reply was handed to the model. ', 5), '{"toolName":"file-read"}'
  from generate_series(1, $1::bigint) as n`

const countEventsSql = [
  `insert into event_minutes select created_at - created_at % 60000, min(seq), max(seq) from events group by 1`,
  `insert into event_counts select 'minute', severity, class, created_at - created_at % 60000, count(*)
    from events group by 2, 3, 4`,
  `insert into event_counts select 'hour', severity, class, bucket - bucket % 3600000, sum(count)
    from event_counts group by 2, 3, 4`,
  `insert into tool_counts select tool, created_at - created_at % 60000, count(*)
    from events where tool is not null group by 1, 2`,
  `update counters set value = (select max(seq) from events)`,
  'analyze',
]

const filledInstanceCount = `
  insert into instances (id, name, first_seen_at, last_heartbeat_at)
  select 'bench-agent-' || n, 'Bench agent ' || n, $2, $2 from generate_series(1, $1::integer) as n`

/** Half an hour less than a day, so that no event leaves the 24-hour window during the measurement. */
const spanMs = 23.5 * 60 * 60 * 1000

async function withClient<Result>(url: string, work: (client: Client) => Promise<Result>): Promise<Result> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** A separate server that syncs every commit, like in production. */
export const startDurablePostgres = (): Promise<TestPostgres> => startPostgres({ durable: true })

/** Starts a service process on this database; several may share it. */
export function startOn(url: string, settings: Record<string, string> = {}): Promise<Service> {
  return startService(undefined, { DATABASE_URL: url, WARDLINE_SECRET: secret, ...settings })
}

/** Stores `count` events, evenly spread over the last day, with their counts, while no service runs. */
export async function fillPostgresEvents(url: string, count: number): Promise<void> {
  await withClient(url, async (client) => {
    await client.query(filledEventCount, [count, Date.now(), spanMs])
    for (const statement of countEventsSql) await client.query(statement)
  })
}

/** Returns rows of a query without parameters; bigint as text, like the driver. */
export async function queryRows(url: string, sql: string): Promise<unknown[]> {
  const { rows } = await withClient(url, (client) => client.query(sql))
  return rows
}

/** Stores `count` instances. */
export async function fillInstances(url: string, count: number): Promise<void> {
  await withClient(url, async (client) => {
    await client.query(filledInstanceCount, [count, Date.now()])
    await client.query('analyze instances')
  })
}
