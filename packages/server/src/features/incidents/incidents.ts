import { Readable } from 'node:stream'
import {
  type IncidentKind,
  type IncidentManifest,
  type IncidentPreview,
  type IncidentQuery,
  incidentKinds,
  incidentLimits,
  type Suspension,
} from '@wardline/contract'
import { dayMs, isoTime } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { AppError, unknownInstance } from '../../errors.ts'
import { timeBounds } from '../../http/page.ts'
import { uuidV7 } from '../../ids.ts'
import { version } from '../../version.ts'
import { type Actor, auditCheckpoint, auditStatements, type KeyNames } from '../audit/audit.ts'
import { listAudit } from '../audit/audit-list.ts'
import { countControlChanges, readControlChanges } from '../audit/control-changes.ts'
import { currentSigningKey } from '../audit/signing-keys.ts'
import type { Enforcement } from '../enforcement/enforcement.ts'
import { countInstanceEvents } from '../events/log-statements.ts'
import { countInstanceHits, readInstanceHits } from '../honeypots/hit-statements.ts'
import { type SuspensionStates, viewInstance } from '../instances/instances.ts'
import { countInstanceFirings, readInstanceFirings } from '../rules/firing-statements.ts'
import { readRuleTitles } from '../rules/title-statements.ts'
import { listSuspensions } from '../suspensions/suspensions.ts'
import { ArchiveWriter, blockBytes, sha256 } from './archive.ts'
import {
  type AuditPart,
  type ContentParts,
  contentsOf,
  eventRange,
  newestEvent,
  type Prepared,
  type Scope,
} from './contents.ts'

export interface IncidentParts extends ContentParts {
  suspensionStates: SuspensionStates
  enforcement: Pick<Enforcement, 'points'>
}

type IncidentDeps = Pick<Deps, 'database' | 'clock' | 'secrets'>

/** Throws AppError `invalid`. */
export function scopeOf(query: IncidentQuery): Scope {
  const { from, to } = timeBounds(query) as { from: number; to: number }
  if (from >= to) throw new AppError('invalid', 'from must be before to.')
  if (to - from > incidentLimits.days * dayMs) {
    throw new AppError('invalid', `from and to must be at most ${incidentLimits.days} days apart.`)
  }
  return { instanceId: query.instance_id, from, to }
}

/** Returns undefined for `not_found`, because a deleted instance still has audit entries to export. */
async function orAbsent<Found>(found: Promise<Found>): Promise<Found | undefined> {
  try {
    return await found
  } catch (fault) {
    if (fault instanceof AppError && fault.code === 'not_found') return undefined
    throw fault
  }
}

/** Returns the part of the audit chain within the range: an empty part at the end of the chain if there is none. */
async function auditPart(db: Db, keyNames: KeyNames, { from, to }: Scope, now: number): Promise<AuditPart> {
  const [first] = await listAudit(db, keyNames, { from, to }, 'oldest', 1)
  const [last] = await listAudit(db, keyNames, { from, to }, 'newest', 1)
  if (!first || !last) {
    const { seq, hash } = await auditCheckpoint(db, now)
    return { after: { seq, hash }, last: { seq, hash } }
  }
  return { after: { seq: first.seq - 1, hash: first.prev_hash }, last: { seq: last.seq, hash: last.hash } }
}

const isWithin = ({ requested_at, resumed_at }: Suspension, { from, to }: Scope): boolean =>
  Date.parse(requested_at) < to && (resumed_at === null || Date.parse(resumed_at) >= from)

/** Throws AppError `not_found`, or `invalid` if the range has too many audit entries. */
async function prepare(db: Db, scope: Scope, parts: IncidentParts, now: number): Promise<Prepared> {
  const { keyNames, suspensionStates } = parts
  const { instanceId } = scope
  const agent = await orAbsent(viewInstance(db, { id: instanceId, team: undefined }, now, suspensionStates))
  if (!agent && (await listAudit(db, keyNames, { target: instanceId }, 'newest', 1)).length === 0) {
    throw unknownInstance(instanceId)
  }
  const listed = await orAbsent(listSuspensions(db, instanceId, parts))
  const audit = await auditPart(db, keyNames, scope, now)
  if (audit.last.seq - audit.after.seq > incidentLimits.auditEntries) {
    const count = incidentLimits.auditEntries.toLocaleString('en')
    throw new AppError('invalid', `The range has more than ${count} audit entries: choose a shorter range.`)
  }
  const suspensions = (listed?.suspensions ?? []).filter((suspension) => isWithin(suspension, scope))
  return { ...scope, agent, suspensions, audit, upTo: await newestEvent(db) }
}

/** Size at which a file ends, before compression. An export has one file in memory at a time. */
const fileBytes = 1024 * 1024

const fileName = (kind: IncidentKind, number: number) => `${kind}/${String(number).padStart(6, '0')}.ndjson`

interface ExportTools {
  scope: Scope
  actor: Actor
  now: number
}

/** Yields the archive in pieces. The signature is in the audit log before it is sent. */
async function* archiveOf(
  deps: IncidentDeps,
  prepared: Prepared,
  parts: IncidentParts,
  { id, actor, now, head }: { id: string; actor: Actor; now: number; head: { seq: number; hash: string } },
): AsyncGenerator<Buffer> {
  const writer = new ArchiveWriter(now)
  const contents = contentsOf(deps.database, actor.keyId, prepared, parts)
  for (const kind of incidentKinds) {
    let number = 1
    let lines: string[] = []
    let size = 0
    const flush = () => writer.file(fileName(kind, number), Buffer.from(lines.join('')), lines.length)
    for await (const row of contents[kind]()) {
      lines.push(`${row}\n`)
      size += row.length
      if (size < fileBytes) continue
      yield await flush()
      number += 1
      lines = []
      size = 0
    }
    if (lines.length > 0 || number === 1) yield await flush()
  }
  const { instanceId, from, to, audit } = prepared
  const manifest: IncidentManifest = {
    format: 1,
    id,
    deployment: deps.secrets.deployment,
    version,
    instance_id: instanceId,
    from: isoTime(from),
    to: isoTime(to),
    exported_at: isoTime(now),
    exported_by: { key_id: actor.keyId, name: actor.name, scope: actor.scope },
    audit: { ...audit, head },
    block_bytes: blockBytes,
    entries: writer.entries,
  }
  const bytes = Buffer.from(JSON.stringify(manifest))
  const key = await currentSigningKey(deps, now)
  const rows = writer.entries.reduce((total, entry) => total + entry.rows, 0)
  const after = { instance_id: instanceId, kid: key.kid, manifest_sha256: sha256(bytes), rows }
  const action = { action: 'incident.sign', target: id, before: null, after }
  await deps.database.batch(auditStatements(deps.database, actor, action, deps.clock.now()))
  yield writer.seal(bytes, key)
}

/** Exports incidents. A key can run one export at a time. */
export class Incidents {
  readonly #deps: IncidentDeps
  readonly #parts: IncidentParts
  readonly #running = new Set<string>()

  constructor(deps: IncidentDeps, parts: IncidentParts) {
    this.#deps = deps
    this.#parts = parts
  }

  #begin(keyId: string): () => void {
    if (this.#running.has(keyId)) {
      throw new AppError(
        'quota_exceeded',
        'Another export with this key is in progress; retry when it has finished.',
        10,
      )
    }
    if (this.#running.size >= incidentLimits.exports) {
      throw new AppError('overloaded', `${incidentLimits.exports} exports are in progress; retry in a moment.`, 10)
    }
    this.#running.add(keyId)
    return () => void this.#running.delete(keyId)
  }

  /** Returns the archive, which is created as the client reads it. The audit entry is stored before the first byte. */
  async export({ scope, actor, now }: ExportTools): Promise<Readable> {
    const { database } = this.#deps
    const end = this.#begin(actor.keyId)
    try {
      const prepared = await database.scan(actor.keyId, (db) => prepare(db, scope, this.#parts, now))
      const id = uuidV7(now)
      const after = { instance_id: scope.instanceId, from: isoTime(scope.from), to: isoTime(scope.to) }
      const action = { action: 'incident.export', target: id, before: null, after }
      await database.batch(auditStatements(database, actor, action, now))
      const { seq, hash } = await auditCheckpoint(database.db, now)
      const pieces = archiveOf(this.#deps, prepared, this.#parts, { id, actor, now, head: { seq, hash } })
      const archive = Readable.from(pieces, { objectMode: false })
      archive.once('close', end)
      return archive
    } catch (fault) {
      end()
      throw fault
    }
  }

  async preview(scope: Scope, caller: string, now: number): Promise<IncidentPreview> {
    return this.#deps.database.scan(caller, async (db) => {
      const prepared = await prepare(db, scope, this.#parts, now)
      return viewPreview(db, prepared, this.#parts)
    })
  }
}

const decoyWords = (type: string, keyType: string | null): string =>
  type === 'api_key' ? `decoy key (${keyType ?? 'unknown'})` : 'decoy path'

type Stage = 'delivered' | 'acknowledged' | 'silent'
const stageWords: Record<Stage, string> = {
  delivered: 'suspension delivered to the agent',
  acknowledged: 'suspension acknowledged by the agent',
  silent: 'proven stopped: nothing came from the agent since',
}

async function viewPreview(db: Db, prepared: Prepared, { keyNames }: IncidentParts): Promise<IncidentPreview> {
  const { instanceId, from, to, suspensions, audit } = prepared
  const { timelineRows, countedEvents } = incidentLimits
  const range = await eventRange(db, prepared, prepared.upTo)
  const changes = await readControlChanges(db, keyNames, { from, to, target: instanceId }, 'oldest', timelineRows)
  const hits = await readInstanceHits(db, prepared, '', timelineRows)
  const firings = await readInstanceFirings(db, prepared, { seq: 0, ruleId: '' }, timelineRows)
  const titles = new Map((await readRuleTitles(db)).map(({ id, title }) => [id, title]))
  const timeline: IncidentPreview['timeline'] = [
    ...changes.map(({ at, action, reason, actor_name, actor }) => ({
      at,
      kind: 'control_change' as const,
      text: `${action} by ${actor_name ?? actor}${reason === null ? '' : `: ${reason}`}`,
    })),
    ...hits.map(({ at, type, key_type, reporter, tool }) => ({
      at: isoTime(at),
      kind: 'decoy_hit' as const,
      text: `${decoyWords(type, key_type)} touched by ${reporter ?? 'an unknown agent'}${tool === null ? '' : ` with ${tool}`}`,
    })),
    ...firings.map(({ fired_at, rule_id, version, mode }) => ({
      at: isoTime(fired_at),
      kind: 'rule_firing' as const,
      text: `rule "${titles.get(rule_id) ?? rule_id}" fired (version ${version}, ${mode})`,
    })),
    ...suspensions.flatMap(({ delivered_at, acknowledged_at, silent_at }) =>
      Object.entries({ delivered: delivered_at, acknowledged: acknowledged_at, silent: silent_at }).flatMap(
        ([stage, at]) =>
          at === null ? [] : [{ at, kind: 'suspension_stage' as const, text: stageWords[stage as Stage] }],
      ),
    ),
  ]
  return {
    instance_id: instanceId,
    from: isoTime(from),
    to: isoTime(to),
    counts: {
      events: range ? await countInstanceEvents(db, { instanceId, ...range }, countedEvents) : 0,
      decoy_hits: await countInstanceHits(db, prepared),
      control_changes: await countControlChanges(db, { from, to, target: instanceId }),
      suspensions: suspensions.length,
      rule_firings: await countInstanceFirings(db, prepared),
      audit: audit.last.seq - audit.after.seq,
    },
    timeline: timeline.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0)),
  }
}
