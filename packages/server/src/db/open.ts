import type { Database } from './database.ts'
import { openSqlite } from './sqlite.ts'

/** Returns the file path of an SQLite database URL; undefined for a PostgreSQL URL. */
export const sqliteFile = (url: string): string | undefined =>
  /^postgres(ql)?:\/\//.test(url) ? undefined : url.replace(/^sqlite:/, '')

/**
 * Opens the database at a URL: `postgres://…` or `sqlite:<file>`. Calls `onFatal` on errors that require a restart of
 * the process. `currentUrl` returns the URL as it is when PostgreSQL refuses user or password. Rejects with DatabaseError.
 */
export async function openDatabase(
  url: string,
  onFatal: (fault: Error) => void,
  currentUrl: () => string = () => url,
): Promise<Database> {
  const file = sqliteFile(url)
  if (file !== undefined) return openSqlite(file, onFatal)
  // Import the driver only when it is used.
  const { openPostgres } = await import('./postgres.ts')
  return openPostgres(url, currentUrl)
}
