import { setTimeout as pause } from 'node:timers/promises'
import { CompiledQuery } from 'kysely'
import type { Pool } from 'pg'
import { DatabaseError } from '../errors.ts'
import type { Statement } from './database.ts'
import { PostgresBatch } from './postgres-batch.ts'
import { isLockedOut, toDatabaseError } from './postgres-errors.ts'
import { connectTo, type PostgresServers } from './postgres-servers.ts'

/** Statements of other processes queue behind a change that waits for a lock, and time out after 1.5 seconds. */
const lockTimeoutMs = 750
/** Lets queued statements run between attempts. */
const pauseMs = 250
/** About two minutes in total: searches finish within seconds, but a dump holds its locks for hours. */
const maxAttempts = 120

const [begin, limitLocks, commit] = ['begin', `set local lock_timeout = ${lockTimeoutMs}`, 'commit'].map((text) =>
  CompiledQuery.raw(text),
) as [Statement, Statement, Statement]

/** For a change that takes long, and another one meanwhile. */
const maxChanges = 2
/** A migration has dozens of changes, and a connection costs more than most of them; later ones are hours apart. */
const idleMs = 1_000

/** Opens the connections for changes: without a statement timeout, because building an index on a large table is slow. */
export function openChanges(servers: PostgresServers): Pool {
  const pool = servers.open({
    application_name: 'wardline migration',
    max: maxChanges,
    idleTimeoutMillis: idleMs,
  })
  pool.on('connect', (client) => client.on('error', () => {}))
  pool.on('error', () => {})
  return pool
}

async function attempt(pool: Pool, statements: readonly Statement[]): Promise<void> {
  const client = await connectTo(pool)
  try {
    await client.query(new PostgresBatch([begin, limitLocks, ...statements, commit])).done
    client.release()
  } catch (fault) {
    // Its transaction may be open.
    client.release(true)
    throw fault
  }
}

/** Runs statements in one transaction. Only waiting for a lock is limited, and retried. */
export async function change(pool: Pool, statements: readonly Statement[]): Promise<void> {
  for (let attempts = 1; ; attempts++) {
    try {
      return await attempt(pool, statements)
    } catch (fault) {
      if (!isLockedOut(fault)) throw toDatabaseError(fault)
      if (attempts === maxAttempts) {
        throw new DatabaseError(
          'Another session, such as pg_dump, has held a lock on the tables for 2 minutes: wait for it or end it (see pg_stat_activity), then start again.',
          { busy: true, cause: fault },
        )
      }
    }
    await pause(pauseMs)
  }
}
