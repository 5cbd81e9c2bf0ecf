import { type ConfigItem, configLimits } from '@wardline/contract'
import { sql } from 'kysely'
import type { Database, Db, Statement, Trx } from '../../db/database.ts'
import { deleteInPortions } from '../../db/portions.ts'
import type { Schema } from '../../db/schema.ts'
import { isOfTeam, type Team } from '../../db/teams.ts'

/** Names that differ only in case are one server. */
const keyOf = (name: string) => name.toLowerCase()

const cellTypes = { server_key: 'text', name: 'text', version: 'text', command: 'text', address: 'text' } as const
const variant = ['version', 'command', 'address'] as const

/** Returns those of the names that the key which registered the instance may list: those that it lists, and new ones in its room. */
async function listedKeys(
  trx: Trx,
  { dialect }: Pick<Database, 'dialect'>,
  instanceId: string,
  keys: readonly string[],
): Promise<Set<string>> {
  const found = await trx.selectFrom('instances').select('owner').where('id', '=', instanceId).executeTakeFirst()
  const owner = found?.owner ?? null
  const isOfKey = sql<boolean>`instance_id in (select id from instances where ${owner === null ? sql`owner is null` : sql`owner = ${owner}`})`
  const asked = dialect.rowsFromJson(JSON.stringify(keys.map((key) => [key])), { server_key: 'text' })
  const ofKey = trx.selectFrom('tool_servers').select('server_key').distinct().where(isOfKey)
  const known = await ofKey
    .where(sql<boolean>`server_key in (select asked.server_key from ${asked} as asked)`)
    .execute()
  const listed = new Set(known.map(({ server_key }) => server_key))
  const added = [...new Set(keys)].filter((key) => !listed.has(key))
  if (added.length === 0) return listed
  const room = configLimits.listedServers - (await ofKey.limit(configLimits.listedServers).execute()).length
  return new Set([...listed, ...added.slice(0, Math.max(0, room))])
}

/**
 * Stores which servers a configuration has, in the transaction that stores the configuration. Resolves with the number of
 * those that are left out because their key lists as many as it may.
 */
export async function storeServers(
  trx: Trx,
  database: Pick<Database, 'dialect'>,
  config: { instanceId: string; source: string; items: readonly ConfigItem[] },
  now: number,
): Promise<number> {
  const { dialect } = database
  const { instanceId, source, items } = config
  const servers = items.filter(({ kind }) => kind === 'server')
  const cells = servers.map(({ name, version = '', command = '', address = '' }) => [
    ...[keyOf(name), name, version, command, address],
  ])
  const all = dialect.rowsFromJson(JSON.stringify(cells), cellTypes)
  await sql`delete from tool_servers where instance_id = ${instanceId} and source = ${source}
    and name not in (select name from ${all} as reported)`.execute(trx)
  if (servers.length === 0) return 0
  const listed = await listedKeys(
    trx,
    database,
    instanceId,
    servers.map(({ name }) => keyOf(name)),
  )
  const kept = cells.filter(([key]) => listed.has(key!))
  const reported = dialect.rowsFromJson(JSON.stringify(kept), cellTypes)
  const isSame = sql.join(
    variant.map((name) => sql`${sql.ref(`tool_servers.${name}`)} = ${sql.ref(`excluded.${name}`)}`),
    sql` and `,
  )
  await sql`insert into tool_servers
      (server_key, instance_id, source, name, version, command, address, named_at, since, seen_at)
    select server_key, ${instanceId}, ${source}, name, version, command, address,
      cast(${now} as bigint), cast(${now} as bigint), cast(${now} as bigint) from ${reported} as reported where true
    on conflict (server_key, instance_id, source, name) do update set
      since = case when ${isSame} then tool_servers.since else excluded.since end,
      version = excluded.version, command = excluded.command, address = excluded.address,
      seen_at = excluded.seen_at`.execute(trx)
  return cells.length - kept.length
}

/** Whether a configuration of the instance of the row around names this server, in any case. */
export const runsServer = (name: string) =>
  sql<boolean>`instances.id in (select instance_id from tool_servers where server_key = ${keyOf(name)})`

export const deleteServers = (db: Db, instanceId: string): Statement =>
  db.deleteFrom('tool_servers').where('instance_id', '=', instanceId).compile()

/** Deletes what was last seen before `cutoff`. */
export const deleteServersBefore = (db: Db, cutoff: number, stopping?: AbortSignal): Promise<void> =>
  deleteInPortions(
    db,
    'tool_servers',
    { key: ['server_key', 'instance_id', 'source', 'name'], where: sql`seen_at < ${cutoff}` },
    stopping,
  )

const serversOf = (db: Db, team: Team) => db.selectFrom('tool_servers').where(isOfTeam('instance_id', team))

/** Finds the first server whose name is after this one, in any case. */
export async function findServerAfter(db: Db, name: string, team: Team): Promise<string | undefined> {
  const found = await serversOf(db, team)
    .select('server_key')
    .where('server_key', '>', keyOf(name))
    .orderBy('server_key')
    .limit(1)
    .executeTakeFirst()
  return found?.server_key
}

type VariantRow = Pick<Schema['tool_servers'], (typeof variant)[number]> & {
  agents: number
  since: number
  seen_at: number
  variants: number
}

/** Reads the variants of a server, those of most agents first. */
export const readVariants = (db: Db, key: string, team: Team, limit: number): Promise<VariantRow[]> =>
  serversOf(db, team)
    .select((e) => [
      ...variant,
      e.fn.count<number>('instance_id').distinct().as('agents'),
      e.fn.min('since').as('since'),
      e.fn.max('seen_at').as('seen_at'),
      sql<number>`count(*) over ()`.as('variants'),
    ])
    .where('server_key', '=', key)
    .groupBy(variant)
    .orderBy('agents', 'desc')
    .orderBy(sql.join(variant.map((name) => sql.ref(name))))
    .limit(limit)
    .execute()

/** Reads how many agents have a server, and since when. */
export const readServer = (db: Db, key: string, team: Team) =>
  serversOf(db, team)
    .select((e) => [
      e.fn.min('name').as('name'),
      e.fn.count<number>('instance_id').distinct().as('agents'),
      e.fn.min('named_at').as('named_at'),
      e.fn.max('seen_at').as('seen_at'),
      e.fn.countAll<number>().as('rows'),
    ])
    .where('server_key', '=', key)
    .executeTakeFirstOrThrow()
