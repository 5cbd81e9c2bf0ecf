import type { Database } from './database.ts'
import { openPostgres } from './postgres.ts'
import { openSqlite } from './sqlite.ts'

/**
 * Opens the database that a URL names: `postgres://…` or `sqlite:<file>`. `onFatal` hears of faults after which only a
 * new process may go on. Rejects with DatabaseError.
 */
export function openDatabase(url: string, onFatal: (fault: Error) => void): Promise<Database> {
  return /^postgres(ql)?:\/\//.test(url) ? openPostgres(url) : openSqlite(url.replace(/^sqlite:/, ''), onFatal)
}
