import type { Database } from './database.ts'
import { openSqlite } from './sqlite.ts'

/** The file that a database URL names; undefined for one of a server. */
export const sqliteFile = (url: string): string | undefined =>
  /^postgres(ql)?:\/\//.test(url) ? undefined : url.replace(/^sqlite:/, '')

/**
 * Opens the database that a URL names: `postgres://…` or `sqlite:<file>`. `onFatal` hears of faults after which only a
 * new process may go on. Rejects with DatabaseError.
 */
export async function openDatabase(url: string, onFatal: (fault: Error) => void): Promise<Database> {
  const file = sqliteFile(url)
  if (file !== undefined) return openSqlite(file, onFatal)
  // Only those load its driver who use it.
  const { openPostgres } = await import('./postgres.ts')
  return openPostgres(url)
}
