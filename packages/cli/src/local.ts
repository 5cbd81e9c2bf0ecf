import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { createLog, type Deps, databaseFile, openDeps, readConfig } from '@wardline/server'
import { Failure } from './exit.ts'

interface LocalOptions {
  /** Creates a missing database, because the first keys may be created before the first start. */
  mayCreate?: boolean
}

/**
 * Opens the database in this machine's configuration, whether the service is running or not. Throws Failure if it does
 * not exist: in a wrong folder, a new empty database would be mistaken for the real one.
 */
export async function withLocalDatabase<Result>(
  work: (deps: Deps) => Promise<Result>,
  { mayCreate = false }: LocalOptions = {},
): Promise<Result> {
  const config = readConfig()
  const file = databaseFile(config)
  if (!mayCreate && file !== undefined && !existsSync(file)) {
    const message = `No database ${resolve(file)}: run this in the folder where the service runs, or set WARDLINE_DATA_DIR or DATABASE_URL to the values of the service.`
    throw new Failure(message, 'configuration', 'configuration')
  }
  const deps = await openDeps(config, { log: createLog('silent') })
  try {
    return await work(deps)
  } finally {
    await deps.close()
  }
}
