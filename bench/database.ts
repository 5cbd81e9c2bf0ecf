import { randomBytes, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import type { EventBody } from './events.ts'

// The only place where the benchmark accesses the database file. It is written only while the service is stopped, and
// its schema is always created by the service.

/** An event with its time of arrival in epoch milliseconds. */
type StoredEvent = EventBody & { createdAt: number }

/** The minimal statement for a batch of events: rows only, without counts and index. */
type EventWriter = {
  /** Encodes a batch as a parameter, separately, so that measurements of the database do not include it. */
  encode(events: readonly StoredEvent[]): string
  /** Stores an encoded batch in one transaction, on disk when it returns. */
  write(batch: string): void
  /** Recomputes counts, index and sequence from all rows, as the service would have stored them. */
  count(): void
  close(): void
}

const insertEventsSql = `
  insert into events (seq, created_at, severity, class, source, event_type, instance_id, session_id, ip_address, id,
    description, metadata)
  select value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7, value->>8, value->>9,
    value->>10, value->>11
  from json_each(?)`

const countEventsSql = `
  delete from event_minutes;
  insert into event_minutes (minute, first_seq, last_seq)
    select created_at - created_at % 60000, min(seq), max(seq) from events group by 1;
  delete from event_counts;
  insert into event_counts (unit, severity, class, bucket, count)
    select 'minute', severity, class, created_at - created_at % 60000, count(*) from events group by 2, 3, 4;
  insert into event_counts (unit, severity, class, bucket, count)
    select 'hour', severity, class, bucket - bucket % 3600000, sum(count) from event_counts group by 2, 3, 4;
  delete from tool_counts;
  insert into tool_counts (tool, minute, count)
    select metadata->>'toolName', created_at - created_at % 60000, count(*) from events
    where event_type = 'tool_call' group by 1, 2;
  delete from event_refs;
  insert into event_refs (kind, value, seq)
    select 'instance', instance_id, seq from events where instance_id is not null
    union all select 'session', session_id, seq from events where session_id is not null;
  update counters set value = (select coalesce(max(seq), 0) from events);`

const insertHoneypotsSql = `
  insert into honeypots (id, instance_id, type, key_type, is_pattern, created_at)
  select value->>0, value->>1, 'api_key', 'generic', 0, value->>3 from json_each(?)`
const insertFingerprintsSql = `
  insert into honeypot_fingerprints (digest, honeypot_id) select value->>2, value->>0 from json_each(?)`

/** Lets the rules begin after the stored events: judging millions of them would be the load that is measured. */
export function skipRules(dataDir: string): void {
  const db = openFile(dataDir)
  db.exec('update rule_runner set seq = (select coalesce(max(seq), 0) from events)')
  db.close()
}

function openFile(dataDir: string): DatabaseSync {
  const db = new DatabaseSync(join(dataDir, 'wardline.db'))
  // The settings of the service's writer, because the comparison is about everything else.
  db.exec('pragma cache_size = -8000; pragma temp_store = memory; pragma journal_size_limit = 67108864')
  db.exec('pragma journal_mode = wal; pragma synchronous = full')
  return db
}

function transaction(db: DatabaseSync, parameter: string, ...statements: StatementSync[]): void {
  db.exec('begin immediate')
  for (const statement of statements) statement.run(parameter)
  db.exec('commit')
}

/** Opens the events of a stopped service for writing. */
export function openEventWriter(dataDir: string): EventWriter {
  const db = openFile(dataDir)
  const insert = db.prepare(insertEventsSql)
  let seq = Number(db.prepare('select coalesce(max(seq), 0) as seq from events').get()!.seq)
  return {
    encode: (events) =>
      JSON.stringify(
        events.map((event) => [
          ++seq,
          event.createdAt,
          event.severity,
          event.event_type.endsWith('_blocked') ? 'blocked' : 'none',
          event.source,
          event.event_type,
          event.instance_id,
          event.session_id,
          '127.0.0.1',
          randomUUID(),
          event.description,
          JSON.stringify(event.metadata),
        ]),
      ),
    write: (batch) => transaction(db, batch, insert),
    count: () => db.exec(`begin immediate; ${countEventsSql} commit;`),
    close: () => db.close(),
  }
}

/** Stores `count` decoy keys with unknown values, assigned to the instances in turn. */
export function writeDecoys(dataDir: string, count: number, instanceIds: readonly string[], createdAt: number): void {
  const db = openFile(dataDir)
  const decoys = Array.from({ length: count }, (_, n) => [
    randomUUID(),
    instanceIds[n % instanceIds.length],
    randomBytes(32).toString('hex'),
    createdAt,
  ])
  transaction(db, JSON.stringify(decoys), db.prepare(insertHoneypotsSql), db.prepare(insertFingerprintsSql))
  db.close()
}
