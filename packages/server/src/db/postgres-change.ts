import { setTimeout as pause } from 'node:timers/promises'
import { CompiledQuery } from 'kysely'
import { Client } from 'pg'
import { DatabaseError } from '../errors.ts'
import type { Statement } from './database.ts'
import { PostgresBatch } from './postgres-batch.ts'
import { isLockedOut, toDatabaseError } from './postgres-errors.ts'

/** Statements of other processes queue behind a change that waits for a lock, and time out after 1.5 seconds. */
const lockTimeoutMs = 750
/** Lets queued statements run between attempts. */
const pauseMs = 250
/** About two minutes in total: searches finish within seconds, but a dump holds its locks for hours. */
const maxAttempts = 120

const [begin, limitLocks, commit] = ['begin', `set local lock_timeout = ${lockTimeoutMs}`, 'commit'].map((text) =>
  CompiledQuery.raw(text),
) as [Statement, Statement, Statement]

async function attempt(url: string, statements: readonly Statement[]): Promise<void> {
  const client = new Client({ connectionString: url, application_name: 'wardline migration' })
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query(new PostgresBatch([begin, limitLocks, ...statements, commit])).done
  } finally {
    await client.end()
  }
}

/**
 * Runs statements in one transaction on a separate connection without a statement timeout, because building an index on
 * a large table is slow. Only waiting for a lock is limited, and retried.
 */
export async function change(url: string, statements: readonly Statement[]): Promise<void> {
  for (let attempts = 1; ; attempts++) {
    try {
      return await attempt(url, statements)
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
