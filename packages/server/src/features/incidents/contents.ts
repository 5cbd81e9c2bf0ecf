import type { AuditEntry, IncidentKind, InstanceDetail, KeyView, Suspension, WithheldRow } from '@wardline/contract'
import { hourMs, isoTime, startOf } from '../../clock.ts'
import { readCounter } from '../../db/counters.ts'
import type { Database, Db } from '../../db/database.ts'
import { pagesOf } from '../../db/portions.ts'
import type { KeyNames } from '../audit/audit.ts'
import { listAudit } from '../audit/audit-list.ts'
import { readControlChanges } from '../audit/control-changes.ts'
import { eventRowJson } from '../events/event-row.ts'
import { readInstanceEvents, readSeqRange } from '../events/log-statements.ts'
import { readInstanceHits } from '../honeypots/hit-statements.ts'
import { readInstanceHours } from '../instances/hour-statements.ts'
import { readFiredVersions, readFiringResponses, readInstanceFirings } from '../rules/firing-statements.ts'

/** Scope of an export: rows of one instance in [from, to), in epoch milliseconds. */
export interface Scope {
  instanceId: string
  from: number
  to: number
}

export interface AuditPart {
  /** The last row before the part. */
  after: { seq: number; hash: string }
  /** The last row of the part. */
  last: { seq: number; hash: string }
}

/** Read before the first byte is sent, so that an unknown instance or an excessive range gets an error response. */
export interface Prepared extends Scope {
  agent: InstanceDetail | undefined
  suspensions: Suspension[]
  audit: AuditPart
  /** Sequence number of the newest event to export. */
  upTo: number
}

/** Rows per page: about 400 kB of events, and a few milliseconds per scan. */
const pageRows = 1_000

type Read = <Result>(read: (db: Db) => Promise<Result>) => Promise<Result>

export interface ContentParts {
  keyNames: KeyNames
  listKeys(db: Db): Promise<KeyView[]>
}

/** Whether an audit row is exported with its content. Other rows only keep their hashes, which the chain needs. */
const isDisclosed = ({ target, action }: Pick<AuditEntry, 'target' | 'action'>, instanceId: string): boolean =>
  target === instanceId || /^(rule|incident|signing_key)\./.test(action)

function auditRow(entry: AuditEntry, instanceId: string): AuditEntry | WithheldRow {
  if (isDisclosed(entry, instanceId)) return entry
  const { seq, prev_hash, hash } = entry
  return { seq, prev_hash, hash, withheld: true }
}

/** Returns the range of sequence numbers in which the events of a scope are; undefined without events. */
export async function eventRange(db: Db, { from, to }: Scope, upTo: number) {
  const range = await readSeqRange(db, from, to)
  return range && { after: range.first - 1, upTo: Math.min(range.last, upTo) }
}

export const newestEvent = (db: Db): Promise<number> => readCounter(db, 'event_seq')

/** Yields the rows of all pages. `next` reads the page after a row. */
async function* paged<Row>(next: (last: Row | undefined) => Promise<Row[]>): AsyncGenerator<Row> {
  for await (const page of pagesOf(pageRows, next)) yield* page
}

/** Returns generators of the rows of each kind as JSON. `keys` must run after the other kinds that name keys. */
export function contentsOf(
  database: Pick<Database, 'scan'>,
  caller: string,
  prepared: Prepared,
  { keyNames, listKeys }: ContentParts,
): Record<IncidentKind, () => AsyncGenerator<string>> {
  const read: Read = (work) => database.scan(caller, work)
  const { instanceId, from, to, audit } = prepared
  /** Ids of keys in the rows so far, the only ones to export. */
  const actors = new Set<string>()
  const json = (value: unknown) => JSON.stringify(value)
  return {
    async *agent() {
      if (prepared.agent) yield json(prepared.agent)
    },
    async *heartbeats() {
      // Counts are stored per hour, so the first row is the whole hour of `from`.
      const hours = await read((db) => readInstanceHours(db, instanceId, { from: startOf(from, hourMs), to }))
      for (const { hour, counts } of hours) {
        const [heartbeats, events, tool_calls, reports] = [0, 12, 24, 36].map((start) =>
          (JSON.parse(counts) as number[]).slice(start, start + 12),
        )
        yield json({ hour: isoTime(hour), bucket_seconds: 300, heartbeats, events, tool_calls, reports })
      }
    },
    async *decoy_hits() {
      const hits = paged((last?: { id: string }) =>
        read((db) => readInstanceHits(db, prepared, last?.id ?? '', pageRows)),
      )
      for await (const hit of hits) {
        actors.add(hit.key_id)
        yield json({ ...hit, at: isoTime(hit.at) })
      }
    },
    async *control_changes() {
      const changes = paged((last?: { seq: number }) =>
        read((db) =>
          readControlChanges(db, keyNames, { from, to, target: instanceId, after: last?.seq ?? 0 }, 'oldest', pageRows),
        ),
      )
      for await (const change of changes) {
        actors.add(change.actor)
        yield json(change)
      }
    },
    async *suspensions() {
      for (const suspension of prepared.suspensions) {
        if (suspension.by !== null) actors.add(suspension.by)
        yield json(suspension)
      }
    },
    async *rule_firings() {
      const pages = pagesOf(pageRows, (last?: { seq: number; rule_id: string }) => {
        const after = { seq: last?.seq ?? 0, ruleId: last?.rule_id ?? '' }
        return read((db) => readInstanceFirings(db, prepared, after, pageRows))
      })
      for await (const firings of pages) {
        const seqs = [...new Set(firings.map(({ seq }) => seq))]
        const responses = await read((db) => readFiringResponses(db, seqs))
        for (const { fired_at, created_at, group_key, events, by_service, ...firing } of firings) {
          yield json({
            ...firing,
            by_service: by_service === 1,
            fired_at: isoTime(fired_at),
            created_at: isoTime(created_at),
            group: JSON.parse(group_key),
            events: JSON.parse(events),
            responses: responses.filter(({ seq, rule_id }) => seq === firing.seq && rule_id === firing.rule_id),
          })
        }
      }
    },
    async *rule_versions() {
      const versions = paged((last?: { rule_id: string; version: number }) => {
        const after = { ruleId: last?.rule_id ?? '', version: last?.version ?? 0 }
        return read((db) => readFiredVersions(db, prepared, after, pageRows))
      })
      for await (const version of versions) yield json({ ...version, created_at: isoTime(version.created_at) })
    },
    async *audit() {
      const rows = paged<AuditEntry>((last) =>
        read((db) => {
          const bounds = { after: last?.seq ?? audit.after.seq, before: audit.last.seq + 1 }
          return listAudit(db, keyNames, bounds, 'oldest', pageRows)
        }),
      )
      for await (const entry of rows) {
        const row = auditRow(entry, instanceId)
        if (!('withheld' in row)) actors.add(row.actor)
        yield json(row)
      }
    },
    async *keys() {
      const keys = await read(listKeys)
      for (const { id, scope, name, instances, created_at, expires_at, revoked_at } of keys) {
        if (actors.has(id)) yield json({ id, scope, name, instances, created_at, expires_at, revoked_at })
      }
    },
    async *events() {
      const range = await read((db) => eventRange(db, prepared, prepared.upTo))
      if (!range) return
      const rows = paged<Awaited<ReturnType<typeof readInstanceEvents>>[number]>((last) =>
        read((db) =>
          readInstanceEvents(db, { instanceId, from, to, after: last?.seq ?? range.after, upTo: range.upTo }, pageRows),
        ),
      )
      for await (const event of rows) yield eventRowJson(event)
    },
  }
}
