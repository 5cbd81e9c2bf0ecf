import { type ToolServer, type ToolServerList, toolServerLimits } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Database, Db } from '../../db/database.ts'
import type { Team } from '../../db/teams.ts'
import { findServerAfter, readServer, readVariants } from './tool-server-statements.ts'

/**
 * Rows of a page, after which it ends early: a server of all agents has a row of each, and a page takes some hundred
 * milliseconds of the scan lane at most.
 */
const pageRows = 100_000

async function readNext(db: Db, after: string, team: Team): Promise<{ server: ToolServer; rows: number } | undefined> {
  const key = await findServerAfter(db, after, team)
  if (key === undefined) return undefined
  const { name, agents, named_at, seen_at, rows } = await readServer(db, key, team)
  // It was removed meanwhile: what comes after it is next.
  if (name === null) return readNext(db, key, team)
  const found = await readVariants(db, key, team, toolServerLimits.variants)
  const variants = found.map(({ version, command, address, ...row }) => ({
    version: version || null,
    command: command || null,
    address: address || null,
    agents: Number(row.agents),
    first_seen: isoTime(row.since),
    last_seen: isoTime(row.seen_at),
  }))
  const server = {
    ...{ name, agents: Number(agents), first_seen: isoTime(named_at), last_seen: isoTime(seen_at) },
    ...{ variants, variant_count: Number(found[0]?.variants ?? 0) },
  }
  return { server, rows: Number(rows) }
}

/** Returns a page of the servers in configurations, by name. Each one is read in its own turn of the scan lane. */
export async function listToolServers(
  database: Pick<Database, 'scan'>,
  { keyId, team }: { keyId: string; team?: Team },
  { after, limit }: { after: string; limit: number },
): Promise<ToolServerList> {
  const servers: ToolServer[] = []
  let last = after
  for (let rows = 0; servers.length < limit && rows < pageRows; ) {
    const found = await database.scan(keyId, (db) => readNext(db, last, team))
    if (!found) return { servers, next: null }
    servers.push(found.server)
    rows += found.rows
    last = found.server.name
  }
  return { servers, next: last }
}
