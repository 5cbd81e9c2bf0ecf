import { createHash } from 'node:crypto'
import { type ConfigItem, configLimits, eventTypes, type InstanceConfig, type ReportedConfig } from '@wardline/contract'
import { dayMs, hourMs, isoTime, minuteMs } from '../../clock.ts'
import type { Trx } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { AppError, unknownInstance } from '../../errors.ts'
import { createPace, TokenBuckets } from '../../token-bucket.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import type { Ingest } from '../events/ingest.ts'
import type { Quotas } from '../keys/quotas.ts'
import {
  compareConfigs,
  describeChanges,
  firstFindings,
  inOrder,
  listChanges,
  repeatedItem,
  severityOfChanges,
} from './config-changes.ts'
import {
  type ConfigRow,
  countConfigs,
  deleteConfigsBefore,
  findConfig,
  insertConfig,
  noteReport,
  readConfigs,
  replaceConfig,
} from './config-statements.ts'
import { readControl } from './control-statements.ts'
import { deleteServersBefore, storeServers } from './tool-server-statements.ts'

/** A configuration that was not reported for longer is forgotten: its folder or server is not used any more. */
const keptMs = 30 * dayMs
/** Reports of the same state are written so often. */
const repeatMs = minuteMs
/** Requests about one configuration take turns; more than this at once come from no client of ours. */
const maxAttempts = 5

/** Reports of one agent: one in ten seconds, and all of its sources at once. */
const msPerReport = 10_000
const burst = 60
/** Agents whose reports are counted: some 2 MiB. */
const maxPaced = 10_000

/** Returns a function that throws AppError `quota_exceeded` when an agent reports too often. */
export const createReportPace = (deps: Pick<Deps, 'clock'>) =>
  createPace(
    deps,
    new TokenBuckets(msPerReport, burst, maxPaced),
    (id) => new AppError('quota_exceeded', `${id} reports its configuration too often: once a minute is enough.`, 10),
  )

export interface ConfigParts {
  ingest: Pick<Ingest, 'own' | 'storeWithin'>
  countedReports: Pick<CountedReports, 'note'>
  quotas: Pick<Quotas, 'takeEvents'>
}

interface ConfigReport {
  instanceId: string
  /** The key that sent it. */
  keyId: string
  /** It is the key of a supervisor. */
  supervises?: boolean | undefined
  body: ReportedConfig
}

const supervisorPrefix = 'supervisor:'

/**
 * What a supervisor sees is kept beside what the agent reports: two keys in turn would hide changes of content from each
 * other, and the agent's key must not change what its supervisor is compared with.
 */
function sourceOf({ body: { source }, supervises }: ConfigReport): string {
  if (supervises) return `${supervisorPrefix}${source}`
  if (source.startsWith(supervisorPrefix)) {
    throw new AppError(
      'invalid',
      `source must not begin with ${supervisorPrefix}: only the key of a supervisor adds that.`,
    )
  }
  return source
}

const hourOf = (at: number) => Math.floor(at / hourMs)

const itemsOf = ({ items }: ConfigRow) => JSON.parse(items) as ConfigItem[]

function newRow({ instanceId, keyId, body: { items } }: ConfigReport, source: string, now: number): ConfigRow {
  const text = JSON.stringify(inOrder(items))
  return {
    instance_id: instanceId,
    source,
    key_id: keyId,
    digest: createHash('sha256').update(text).digest('hex'),
    items: text,
    since: now,
    reported_at: now,
    changed_at: null,
  }
}

/**
 * Stores a configuration as reported, with the event about what changed in the same transaction. Resolves with the number of
 * changes. Throws AppError `invalid`, `not_found` or `quota_exceeded`.
 */
export async function reportConfig(deps: Deps, parts: ConfigParts, report: ConfigReport): Promise<number> {
  const {
    instanceId,
    keyId,
    body: { items },
  } = report
  const { ingest, quotas } = parts
  const source = sourceOf(report)
  const { db } = deps.database
  const repeated = repeatedItem(items)
  if (repeated !== undefined) throw new AppError('invalid', `items must not repeat an item of one kind: ${repeated}.`)
  if (!(await readControl(db, instanceId))) throw unknownInstance(instanceId)
  const now = deps.clock.now()
  const row = newRow(report, source, now)
  const keepServers = (trx: Trx) => storeServers(trx, deps.database, { instanceId, source, items }, now)
  let unlisted = 0
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const before = await findConfig(db, instanceId, source)
    if (before?.digest === row.digest) {
      if (Math.abs(now - before.reported_at) < repeatMs) return 0
      await db.transaction().execute(async (trx) => {
        const isSame = await noteReport(trx, before, now)
        // Their rows, some twenty, are written once an hour.
        if (isSame && hourOf(now) !== hourOf(before.reported_at)) unlisted = await keepServers(trx)
      })
      noteUnlisted(parts, report, unlisted)
      return 0
    }
    if (!before && (await countConfigs(db, instanceId)) >= configLimits.sources) {
      throw new AppError('quota_exceeded', `${instanceId} reports more than ${configLimits.sources} sources.`, 3600)
    }
    const changes = before ? compareConfigs(itemsOf(before), items, before.key_id === keyId) : firstFindings(items)
    if (changes.length > 0) quotas.takeEvents(keyId, 0, 1, 0)
    const event = ingest.own({
      severity: severityOfChanges(changes),
      event_type: eventTypes.agentConfigChanged,
      description: describeChanges(source, changes),
      instance_id: instanceId,
      metadata: { source, total: changes.length, changes: listChanges(changes) },
    })
    let publish = () => {}
    const isStored = await db.transaction().execute(async (trx) => {
      const changedAt = changes.length > 0 ? now : before?.changed_at
      const isOurs = before
        ? await replaceConfig(trx, { ...row, changed_at: changedAt ?? null }, before)
        : await insertConfig(trx, row)
      if (!isOurs) return false
      unlisted = await keepServers(trx)
      if (changes.length > 0) publish = await ingest.storeWithin(trx, [event])
      return true
    })
    publish()
    if (isStored) {
      noteUnlisted(parts, report, unlisted)
      return changes.length
    }
  }
  throw new AppError('quota_exceeded', `${instanceId} reports ${source} too often at the same time.`, 1)
}

/** Reports servers that are not in the list of all servers. The configuration of the agent shows them. */
function noteUnlisted({ countedReports }: ConfigParts, { keyId, instanceId }: ConfigReport, unlisted: number): void {
  if (unlisted === 0) return
  const name = 'tool_servers'
  const describe = (count: number) => ({
    severity: 'warning' as const,
    event_type: eventTypes.quotaExceeded,
    description: `Key ${keyId} exceeded its quotas: its agents have more than ${configLimits.listedServers} tool servers, and ${count} are not in the list of all servers`,
    instance_id: instanceId,
    metadata: { key_id: keyId, refused: { [name]: count }, quotas: { [name]: configLimits.listedServers } },
  })
  countedReports.note({ kind: eventTypes.quotaExceeded, owner: keyId, name }, describe, unlisted)
}

/** Throws AppError `not_found`. */
export async function viewConfig(
  { database: { db } }: Pick<Deps, 'database'>,
  instanceId: string,
): Promise<InstanceConfig> {
  if (!(await readControl(db, instanceId))) throw unknownInstance(instanceId)
  const configs = (await readConfigs(db, instanceId)).map((row) => ({
    source: row.source,
    since: isoTime(row.since),
    reported_at: isoTime(row.reported_at),
    changed_at: row.changed_at === null ? null : isoTime(row.changed_at),
    items: itemsOf(row),
  }))
  return { configs }
}

/** Periodic job: forgets configurations that were not reported for long. */
export async function forgetConfigs(
  { database, clock }: Pick<Deps, 'database' | 'clock'>,
  stopping?: AbortSignal,
): Promise<void> {
  const cutoff = clock.now() - keptMs
  await deleteConfigsBefore(database.db, cutoff, stopping)
  await deleteServersBefore(database.db, cutoff, stopping)
}
