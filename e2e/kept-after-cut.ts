import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { AnswerCall, RecordedCalls } from './recorded-calls.ts'
import type { Created } from './shapes.ts'

/** What the service had acknowledged by a moment of the recording. */
export interface Acknowledged {
  events: string[]
  keys: string[]
  decoys: string[]
  /** Kills and resumes, by agent. */
  changes: Map<string, number>
}

const isDone = ({ status }: AnswerCall) => status === 200 || status === 201

/** Reads it from the answers themselves: one that began to leave counts, although no client had it yet. */
export function acknowledgedBy({ calls }: Pick<RecordedCalls, 'calls'>, moment: number): Acknowledged {
  const acknowledged: Acknowledged = { events: [], keys: [], decoys: [], changes: new Map() }
  const lists: Record<string, string[]> = {
    'POST /api/events': acknowledged.events,
    'POST /api/keys': acknowledged.keys,
    'POST /api/honeypots': acknowledged.decoys,
  }
  for (const call of calls) {
    if (call.begin > moment) break
    if (call.kind !== 'answer' || !isDone(call)) continue
    const list = lists[call.request]
    if (list) list.push((JSON.parse(call.body) as Created).id)
    const [, agent] = /^POST \/api\/(?:kill|resume)\/(.+)$/.exec(call.request) ?? []
    if (agent) acknowledged.changes.set(agent, (acknowledged.changes.get(agent) ?? 0) + 1)
  }
  return acknowledged
}

/** Answers to stored events that left before a sync of the database's log had begun after the request, and ended. */
export function unsyncedAnswers({ calls }: Pick<RecordedCalls, 'calls'>): { answers: number; unsynced: AnswerCall[] } {
  const syncs = calls.filter((call) => call.kind === 'sync').filter(({ inode }) => inode.path.endsWith('-wal'))
  const answers = calls
    .filter((call) => call.kind === 'answer')
    .filter(({ request, status }) => request === 'POST /api/events' && status === 201)
  const unsynced = answers.filter(({ asked, begin }) => !syncs.some((sync) => sync.begin > asked && sync.end < begin))
  return { answers: answers.length, unsynced }
}

type Row = Record<string, string | number>

/** Opens a database as SQLite recovers it, and returns what is missing, doubled or broken. */
export function faultsOf(file: string, acknowledged: Acknowledged, dataDir = dirname(file)): string[] {
  const { events, keys, decoys, changes } = acknowledged
  if (!existsSync(file))
    return events.length + keys.length + decoys.length + changes.size === 0 ? [] : ['The database is missing.']
  const faults: string[] = []
  const expect = (holds: boolean, fault: string) => holds || faults.push(fault)
  const database = new DatabaseSync(file)
  const rows = (sql: string) => database.prepare(sql).all() as Row[]
  const check = (when: string) => {
    const found = rows('pragma integrity_check').map((row) => row.integrity_check)
    expect(found.join() === 'ok', `${when}: ${found.join()}`)
  }
  try {
    check('after the cut')
    const tables = new Set(rows(`select name from sqlite_master where type = 'table'`).map(({ name }) => name))
    const idsOf = (table: string) =>
      new Set(tables.has(table) ? rows(`select id from ${table}`).map(({ id }) => id) : [])
    const tablesOf = { events: 'events', keys: 'api_keys', decoys: 'honeypots' } as const
    for (const [what, table] of Object.entries(tablesOf)) {
      const stored = idsOf(table)
      const lost = acknowledged[what as keyof typeof tablesOf].filter((id) => !stored.has(id))
      expect(lost.length === 0, `lost ${lost.length} of the ${what}, such as ${lost[0]}`)
    }
    if (tables.has('events')) faults.push(...eventFaults(rows))
    if (tables.has('audit_log')) faults.push(...auditFaults(rows, changes))
    if (tables.has('api_keys')) faults.push(...secretFaults(dataDir, rows))
    // It goes on: another transaction, and the log joins the database.
    database.exec('create table after_cut (number integer); insert into after_cut values (1)')
    database.exec('pragma wal_checkpoint(truncate)')
    check('after going on')
  } catch (fault) {
    faults.push(String(fault))
  } finally {
    database.close()
  }
  return faults
}

function eventFaults(rows: (sql: string) => Row[]): string[] {
  const [found] = rows('select count(*) as count, coalesce(max(seq), 0) as last from events')
  const [counter] = rows(`select coalesce(max(value), 0) as last from counters where name = 'event_seq'`)
  const sent = rows(
    `select description from events where source = 'power-cut' group by description having count(*) > 1`,
  )
  return [
    ...(found!.count === found!.last ? [] : [`${found!.count} events, the last is number ${found!.last}`]),
    ...(counter!.last === found!.last ? [] : [`the counter is at ${counter!.last}, the events at ${found!.last}`]),
    ...sent.map(({ description }) => `twice: ${description}`),
  ]
}

function auditFaults(rows: (sql: string) => Row[], changes: Map<string, number>): string[] {
  const faults: string[] = []
  let before = { seq: 0, hash: '0'.repeat(64) }
  const versions = new Map<string, number>()
  for (const { seq, prev_hash, hash, action, target } of rows('select * from audit_log order by seq')) {
    if (seq !== before.seq + 1 || prev_hash !== before.hash)
      faults.push(`audit entry ${seq} does not follow ${before.seq}`)
    before = { seq: Number(seq), hash: String(hash) }
    if (/^instance\.(suspend|resume)$/.test(String(action))) {
      versions.set(String(target), (versions.get(String(target)) ?? 0) + 1)
    }
  }
  const [head] = rows('select seq, hash from audit_head')
  if (head && head.hash !== before.hash) faults.push(`the audit log ends at ${before.seq}, not at ${head.seq}`)
  const versionOf = new Map(
    rows('select id, control_version from instances').map((row) => [row.id, row.control_version]),
  )
  for (const id of new Set([...changes.keys(), ...versions.keys()])) {
    const [count, acknowledged] = [versions.get(id) ?? 0, changes.get(id) ?? 0]
    const version = versionOf.get(id)
    if (count !== version) faults.push(`${id}: version ${version}, ${count} audit entries`)
    // Its operator waits for each answer, so one change may have been under way.
    if (count < acknowledged || count > acknowledged + 1)
      faults.push(`${id}: ${acknowledged} changes, ${count} entries`)
  }
  return faults
}

/** Without its first key no person can sign in, and without the secret no decoy matches. */
function secretFaults(dataDir: string, rows: (sql: string) => Row[]): string[] {
  const has = (name: string, form: RegExp) => {
    const file = join(dataDir, name)
    return existsSync(file) && form.test(readFileSync(file, 'utf8'))
  }
  const keys = rows(`select id from api_keys where name = 'first admin'`)
  const checks = rows(`select value from facts where name = 'secret_check'`)
  return [
    ...(checks.length > 0 && !has('secret', /^[\w-]{43}\n$/) ? ['the secret is missing'] : []),
    ...keys.filter(({ id }) => !has('admin-key', new RegExp(`${id}.*\n$`))).map(() => 'the admin key is missing'),
  ]
}
